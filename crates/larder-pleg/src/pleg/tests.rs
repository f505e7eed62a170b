mod fake;
mod faults;
mod generic;
mod single;
mod waits;
