//! The documents whose code is compiled and run with the tests.

#[doc = include_str!("../README.md")]
struct Readme;

#[doc = include_str!("../docs/from-node-redlock.md")]
struct FromNodeRedlock;

#[doc = include_str!("../docs/settings.md")]
struct Settings;
