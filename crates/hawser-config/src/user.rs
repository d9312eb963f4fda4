use hawser_policy::User;

/// Looks up the user named by `text`, by name or number.
///
/// # Errors
/// Fails if there is no such user, or the lookup fails now.
pub fn read_user(text: &str) -> Result<User, UnknownUser> {
    if let Ok(id) = text.parse::<u32>() {
        let is_user = id <= MAX_USER;
        return is_user.then(|| id.into()).ok_or_else(|| unknown(text));
    }
    if text.is_empty() || text.len() > MAX_NAME || text.contains(char::is_control) {
        return Err(unknown(text));
    }
    match nix::unistd::User::from_name(text) {
        Ok(Some(user)) => Ok(User::named(text.to_owned(), user.uid.as_raw())),
        Ok(None) => Err(unknown(text)),
        Err(error) => Err(UnknownUser::NotLookedUp {
            name: text.to_owned(),
            problem: error.desc(),
        }),
    }
}

fn unknown(text: &str) -> UnknownUser {
    let printable = text.chars().filter(|it| !it.is_control());
    UnknownUser::NotThere(printable.take(MAX_NAME).collect())
}

/// Reason why a user is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownUser {
    /// This system has no such user.
    #[error("users of this system, by name, or by number up to {MAX_USER}; there is no user `{0}`")]
    NotThere(String),
    /// The database of users does not answer.
    #[error("users of this system; `{name}` can't be looked up: {problem}")]
    NotLookedUp {
        /// The name.
        name: String,
        /// Problem that the system reports.
        problem: &'static str,
    },
}

/// The next number stands for no user in the kernel's calls.
pub(crate) const MAX_USER: u32 = u32::MAX - 1;
/// Maximum length on Linux (`LOGIN_NAME_MAX`).
const MAX_NAME: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names_and_numbers() {
        let root = read_user("root").unwrap();
        assert_eq!((root.id(), root.name()), (0, Some("root")));
        let number = read_user("4294967294").unwrap();
        assert_eq!((number.id(), number.name()), (MAX_USER, None));
    }

    #[test]
    fn one_who_is_not_there_is_named() {
        for name in ["no-user-of-this-name", "4294967295", "", "a\0b", "-1"] {
            let problem = read_user(name).unwrap_err().to_string();
            let shown = name.replace('\0', "");
            assert!(
                problem.ends_with(&format!("there is no user `{shown}`")),
                "{problem}"
            );
        }
        let long = "a".repeat(10_000);
        assert!(read_user(&long).unwrap_err().to_string().len() < 400);
    }
}
