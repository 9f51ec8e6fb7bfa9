//! How many trivial jobs a second come through when eight are under way at any time.
//!
//! Every job has a sandbox of its own, and starting one takes the same work whoever does it. So a first burst goes at the
//! rate of starting; what it lacked is kept ready for the next one, as far as memory allows, and that is measured too.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use mesh_sandbox::{Language, PoolConfig, SandboxConfig};

use crate::bare::{Bare, Root};
use crate::{Error, config, one, open, settle};

const JOBS: usize = 200;
const IN_FLIGHT: usize = 8;
const LANGUAGE: Language = Language::Python;
/// At least so many times the rate of the floor, which is measured before and after since a machine may change meanwhile.
const BAR: f64 = 2.0;

pub(crate) fn measure(root: &Path) -> Result<(), Error> {
    println!("{JOBS} trivial jobs in {LANGUAGE}, {IN_FLIGHT} at a time:");
    let cold_config = config(root, "rate-cold", 0);
    let cold = open(&cold_config)?;
    let prepare = |root_of| {
        Bare::prepare(&root.join("bare"), &cold, &cold_config, LANGUAGE, root_of)
            .map_err(|error| error.to_string())
    };
    let (bare, from_image) = (prepare(Root::Directory)?, prepare(Root::Image)?);
    let before = rate(|| bare.run().map(drop))?;
    println!(
        "  bare runsc: {before:.1} a second; from our image {:.1}",
        rate(|| from_image.run().map(drop))?
    );
    let no_pool = rate(|| one(&cold, LANGUAGE).map(drop))?;
    let kept = SandboxConfig { pool: PoolConfig::default(), ..config(root, "rate-kept", 0) };
    let sandbox = open(&kept)?;
    let mut bursts = Vec::new();
    for _ in 0..3 {
        let ready = settle(&sandbox);
        bursts.push((ready, rate(|| one(&sandbox, LANGUAGE).map(drop))?));
    }
    drop(sandbox);
    let after = rate(|| bare.run().map(drop))?;
    println!("  bare runsc again: {after:.1} a second");
    let floor = f64::midpoint(before, after);
    let tell = |what: &str, rate: f64| {
        let verdict = if rate >= BAR * floor { "ok" } else { "MISSED" };
        println!("  {what}: {rate:.1} a second, {:.2} of bare (bar {BAR}) {verdict}", rate / floor);
    };
    tell("no pool", no_pool);
    for (number, (ready, rate)) in bursts.into_iter().enumerate() {
        tell(&format!("burst {} of the pool as shipped, {ready} ready", number + 1), rate);
    }
    Ok(())
}

/// Runs all, and returns how many a second.
fn rate(run: impl Fn() -> Result<(), Error> + Sync) -> Result<f64, Error> {
    let next = AtomicUsize::new(0);
    let lane = || -> Result<(), Error> {
        while next.fetch_add(1, Ordering::Relaxed) < JOBS {
            run()?;
        }
        Ok(())
    };
    let started = Instant::now();
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..IN_FLIGHT).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().try_for_each(|lane| lane.join().unwrap_or_else(|_| Err("a lane panicked".into())))
    })?;
    Ok(JOBS as f64 / started.elapsed().as_secs_f64())
}
