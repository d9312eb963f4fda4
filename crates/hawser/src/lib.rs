//! Bonded byte streams over every link of a machine: the library to embed.
