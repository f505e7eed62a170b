mod calls;
mod connection;
mod server;
