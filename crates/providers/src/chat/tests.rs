//! Tables of wire oddities: bytes in, parts out.

mod decode;
mod render;
mod words;
