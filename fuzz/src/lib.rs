//! What the fuzz targets do. Each is a harness that turns an input into calls of `leasehold`, beside
//! a model that says what the calls must return; `fuzz_targets/` only starts them. See `README.md`.

mod choice;
pub mod clock;
pub mod packing;
pub mod table;
pub mod waiting;
pub mod wheel;

/// Lets whatever waits for a grace period be done: nobody is pinned.
fn collect() {
    for _ in 0..4 {
        crossbeam_epoch::pin().flush();
    }
}
