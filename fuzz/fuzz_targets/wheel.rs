#![no_main]

libfuzzer_sys::fuzz_target!(|input: leasehold_fuzz::wheel::Input| leasehold_fuzz::wheel::run(
    input
));
