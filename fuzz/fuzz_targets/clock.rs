#![no_main]

libfuzzer_sys::fuzz_target!(|input: leasehold_fuzz::clock::Input| leasehold_fuzz::clock::run(
    input
));
