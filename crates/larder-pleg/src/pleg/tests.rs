mod apart;
mod evented;
mod fake;
mod faults;
mod generic;
mod single;
mod waits;
