//! HTTP/1.1 heads and bodies for both roles, pure.
