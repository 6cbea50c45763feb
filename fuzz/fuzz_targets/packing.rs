#![no_main]

libfuzzer_sys::fuzz_target!(|input: leasehold_fuzz::packing::Input| leasehold_fuzz::packing::run(
    input
));
