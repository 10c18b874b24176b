//! A scripted upstream over real sockets: plays given bytes at a given pace.
