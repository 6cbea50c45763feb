#![no_main]

libfuzzer_sys::fuzz_target!(|input: leasehold_fuzz::waiting::Input| {
    leasehold_fuzz::waiting::run(&input);
});
