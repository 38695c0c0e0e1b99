//! The README, whose code is compiled and run with the tests.

#[doc = include_str!("../README.md")]
struct Readme;
