//! One attempt over real sockets, driven by whoever polls it.
