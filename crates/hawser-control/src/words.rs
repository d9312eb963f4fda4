//! Enums whose variants have one word each, in JSON and in text.

/// Implements the words of enum variants.
macro_rules! words {
    ($($kind:ident { $($variant:ident => $word:literal),+ $(,)? })+) => {$(
        impl $kind {
            /// All known values.
            pub const ALL: &[Self] = &[$(Self::$variant),+];
        }

        impl std::fmt::Display for $kind {
            /// Writes the variant's word in JSON.
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(match self {
                    $(Self::$variant => $word,)+
                })
            }
        }
    )+};
}

pub(crate) use words;
