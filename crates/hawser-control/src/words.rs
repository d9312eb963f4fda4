//! Enums whose variants are words in JSON and in text.

/// Gives enums the words of their variants.
macro_rules! words {
    ($($kind:ident { $($variant:ident => $word:literal),+ $(,)? })+) => {$(
        impl $kind {
            /// All known values.
            pub const ALL: &[Self] = &[$(Self::$variant),+];
        }

        impl std::fmt::Display for $kind {
            /// The word that stands for it in JSON.
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(match self {
                    $(Self::$variant => $word,)+
                })
            }
        }
    )+};
}

pub(crate) use words;
