//! Tools with which a lease table, or what is built on one, is put to the test.
