//! `init`: make a mesh with this machine as its first node.

use crate::args::InitArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::founding;
use crate::invocation::Invocation;

/// Makes it, and says what comes next.
pub(crate) async fn init(invocation: &Invocation, args: InitArgs) -> Result<Exit, Failure> {
    founding::init(invocation, args).await
}
