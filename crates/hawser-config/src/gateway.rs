use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Source of a gateway's invite: the invite itself, or where it is read from.
#[derive(Clone, PartialEq, Eq)]
pub enum GatewaySource {
    /// `hawser://host:port/#…`. It may carry a secret: neither log nor show it whole.
    Url(String),
    /// `@FILE`: the file's first line is the invite.
    File(PathBuf),
    /// `-`: the next line of standard input is the invite.
    Stdin,
}

impl FromStr for GatewaySource {
    type Err = GatewaySourceError;

    fn from_str(text: &str) -> Result<Self, GatewaySourceError> {
        match text.strip_prefix('@') {
            None if text == "-" => Ok(Self::Stdin),
            Some("") => Err(GatewaySourceError),
            Some(path) => Ok(Self::File(path.into())),
            None if text.starts_with("hawser://") => Ok(Self::Url(text.to_owned())),
            None => Err(GatewaySourceError),
        }
    }
}

impl fmt::Debug for GatewaySource {
    /// Leaves the secret out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => {
                let address = url.split('#').next().unwrap_or_default();
                write!(f, "Url({address}#…)")
            }
            Self::File(path) => write!(f, "File({})", path.display()),
            Self::Stdin => f.write_str("Stdin"),
        }
    }
}

/// A text that is not an invite. It is not repeated, since it may be part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected `@FILE` with an invite in the file, `-` for one from standard input, or an invite \
     `hawser://host:port/#…`"
)]
pub struct GatewaySourceError;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_an_invite_or_a_file() {
        assert_eq!("@/run/i".parse(), Ok(GatewaySource::File("/run/i".into())));
        let url = "hawser://gw:7443/#secret".parse();
        assert_eq!(
            url,
            Ok(GatewaySource::Url("hawser://gw:7443/#secret".into()))
        );
        assert_eq!("-".parse(), Ok(GatewaySource::Stdin));
        for text in ["", "@", "--", "https://gw/", "gw:7443"] {
            assert_eq!(
                text.parse::<GatewaySource>(),
                Err(GatewaySourceError),
                "{text}"
            );
        }
    }

    #[test]
    fn the_secret_is_not_shown() {
        let url: GatewaySource = "hawser://gw:7443/#secret".parse().unwrap();
        assert_eq!(format!("{url:?}"), "Url(hawser://gw:7443/#…)");
    }
}
