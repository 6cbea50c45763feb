#![no_main]

libfuzzer_sys::fuzz_target!(|input: leasehold_fuzz::table::Input| leasehold_fuzz::table::run(
    input
));
