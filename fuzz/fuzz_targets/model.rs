#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| headway_fuzz::parsers::model(bytes));
