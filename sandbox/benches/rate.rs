//! How many trivial jobs a second come through when eight are under way at any time.
//!
//! Every job has a sandbox of its own, and starting one takes the same work whoever does it. So a pool that is small
//! beside the number of jobs is emptied, and the rate is that of starting; a pool made for the burst shows what is left
//! when that was done before.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use mesh_sandbox::Language;

use crate::bare::{Bare, Root};
use crate::{Error, config, fill, one, open};

const JOBS: usize = 200;
const IN_FLIGHT: usize = 8;
const LANGUAGE: Language = Language::Python;
/// Sandboxes of each language kept ready: as shipped, and for a burst of this size.
const POOLS: [usize; 2] = [2, JOBS / 2];

pub(crate) fn measure(root: &Path) -> Result<(), Error> {
    println!("{JOBS} trivial jobs in {LANGUAGE}, {IN_FLIGHT} at a time:");
    let floor = {
        let config = config(root, "rate-cold", 0);
        let sandbox = open(&config)?;
        let bare = Bare::prepare(&root.join("bare"), &sandbox, &config, LANGUAGE, Root::Directory)
            .map_err(|error| error.to_string())?;
        let floor = rate(|| bare.run().map(drop))?;
        println!("  bare runsc: {floor:.1} a second");
        println!("  no pool: {:.1} a second", rate(|| one(&sandbox, LANGUAGE).map(drop))?);
        floor
    };
    for armed in POOLS {
        let mut config = config(root, &format!("rate-{armed}"), armed);
        config.pool.languages = vec![LANGUAGE];
        let sandbox = open(&config)?;
        fill(&sandbox, armed)?;
        let rate = rate(|| one(&sandbox, LANGUAGE).map(drop))?;
        let verdict = if rate >= 2.0 * floor { "ok" } else { "MISSED" };
        println!("  pool of {armed}: {rate:.1} a second, {:.2} of bare (bar 2) {verdict}", rate / floor);
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
