//! Which function answers which route.

use std::sync::Arc;

use axum::routing::{MethodRouter, on};

use super::route::Route;
use super::{Api, jobs, metrics, openapi, service, stream};
use crate::service::Service;

/// The handler of a route, for its method.
pub(super) fn handler<S: Service>(route: Route) -> MethodRouter<Arc<Api<S>>> {
    let verb = route.verb().filter();
    match route {
        Route::Submit => on(verb, jobs::submit::<S>),
        Route::List => on(verb, jobs::list::<S>),
        Route::Show => on(verb, jobs::show::<S>),
        Route::Cancel => on(verb, jobs::cancel::<S>),
        Route::Result => on(verb, jobs::result::<S>),
        Route::Replay => on(verb, jobs::replay::<S>),
        Route::Stream => on(verb, stream::open::<S>),
        Route::StreamTicket => on(verb, stream::ticket::<S>),
        Route::Attestation => on(verb, jobs::attestation::<S>),
        Route::ResultArtifact => on(verb, jobs::result_artifact::<S>),
        Route::PublicKey => on(verb, service::public_key::<S>),
        Route::Capabilities => on(verb, service::capabilities::<S>),
        Route::Status => on(verb, service::status::<S>),
        Route::Whoami | Route::WhoamiShort => on(verb, service::whoami),
        Route::TenantMetrics => on(verb, metrics::own::<S>),
        Route::Metrics => on(verb, metrics::all::<S>),
        Route::OpenApi => on(verb, openapi::document),
        Route::OAuth => on(verb, service::no_identity_provider),
        Route::Health => on(verb, service::health),
        Route::Ready => on(verb, service::ready::<S>),
    }
}
