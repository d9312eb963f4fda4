use std::sync::atomic::Ordering;

use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use super::context::{Context, Ends, close_gently, in_time};
use super::intake::{Fault, Intake};
use super::parse::Malformed;
use super::socks5::{Failure, Method, Request};
use super::udp_associate::UdpAssociation;
use super::{socks4, socks5};
use crate::relay::Side;
use crate::transport::{ByteStream, Dialer, ResetCode};

/// A connection whose first bytes were read.
pub(super) struct Begun<C> {
    pub(super) client: C,
    pub(super) intake: Intake,
    pub(super) ends: Ends,
}

pub(super) async fn serve_5<C: ByteStream, D: Dialer>(
    begun: Begun<C>,
    deadline: Instant,
    context: &Context<D>,
) -> Result<(), Fault> {
    let Begun {
        mut client,
        mut intake,
        ends,
    } = begun;
    greet(&mut client, &mut intake, deadline, context).await?;
    let request = intake.read_message(&mut client, socks5::parse_request);
    let failure = match in_time(deadline, request).await {
        Ok(Request::Connect(destination)) => {
            context.counters.socks5.fetch_add(1, Ordering::Relaxed);
            match context.dial(&destination).await {
                Ok(server) => {
                    let reply = socks5::reply(Ok(()));
                    return connect(client, intake, server, &reply, context).await;
                }
                Err(error) => Failure::Dial(error),
            }
        }
        Ok(Request::Associate(sender)) => {
            match UdpAssociation::open(context, ends, &sender).await {
                Ok(association) => {
                    context.counters.socks5.fetch_add(1, Ordering::Relaxed);
                    answer(&mut client, &association.reply()).await?;
                    association.run(&mut client).await;
                    return Ok(());
                }
                Err(failure) => failure,
            }
        }
        Err(Fault::Malformed(reason)) => Failure::Malformed(reason),
        Err(fault) => return Err(fault),
    };
    answer_last(&mut client, &socks5::reply(Err(failure))).await;
    match failure {
        Failure::Malformed(reason) => Err(Fault::Malformed(reason)),
        Failure::Dial(_) => Ok(()),
    }
}

/// Negotiates the authentication method, and authenticates the client.
async fn greet<C: ByteStream, D>(
    client: &mut C,
    intake: &mut Intake,
    deadline: Instant,
    context: &Context<D>,
) -> Result<(), Fault> {
    let credentials = context.config.credentials.as_deref();
    let method = match credentials {
        Some(_) => Method::Password,
        None => Method::None,
    };
    let greeting = intake.read_message(client, |bytes| socks5::parse_greeting(bytes, method));
    if let Err(fault) = in_time(deadline, greeting).await {
        if fault == Fault::Malformed(Malformed::AuthenticationMethod) {
            answer_last(client, &socks5::METHOD_REFUSED).await;
        }
        return Err(fault);
    }
    answer(client, &method.accepted()).await?;
    let Some(credentials) = credentials else {
        return Ok(());
    };
    let login = intake.read_message(client, |bytes| socks5::parse_login(bytes, credentials));
    let is_right = in_time(deadline, login).await?;
    if context.admits(|| is_right) {
        return answer(client, &socks5::login_reply(true)).await;
    }
    answer_last(client, &socks5::login_reply(false)).await;
    Err(Fault::Malformed(Malformed::Password))
}

pub(super) async fn serve_4<C: ByteStream, D: Dialer>(
    mut client: C,
    mut intake: Intake,
    deadline: Instant,
    context: &Context<D>,
) -> Result<(), Fault> {
    if context.config.credentials.is_some() {
        answer_last(&mut client, &socks4::reply(false)).await;
        return Err(Fault::Malformed(Malformed::AuthenticationMethod));
    }
    let request = intake.read_message(&mut client, socks4::parse_request);
    let destination = match in_time(deadline, request).await {
        Ok(destination) => destination,
        Err(fault) => {
            if let Fault::Malformed(_) = fault {
                answer_last(&mut client, &socks4::reply(false)).await;
            }
            return Err(fault);
        }
    };
    context.counters.socks4.fetch_add(1, Ordering::Relaxed);
    match context.dial(&destination).await {
        Ok(server) => connect(client, intake, server, &socks4::reply(true), context).await,
        Err(_) => {
            answer_last(&mut client, &socks4::reply(false)).await;
            Ok(())
        }
    }
}

/// Tells the client of success and relays, beginning with the bytes in `intake`.
async fn connect<C: ByteStream, D: Dialer>(
    mut client: C,
    intake: Intake,
    mut server: D::Stream,
    reply: &[u8],
    context: &Context<D>,
) -> Result<(), Fault> {
    if let Err(fault) = answer(&mut client, reply).await {
        server.reset(ResetCode::Aborted);
        return Err(fault);
    }
    let early = intake.into_unread();
    let client = Side {
        stream: client,
        early,
    };
    context.relay(client, server.into()).await;
    Ok(())
}

async fn answer<C: ByteStream>(client: &mut C, bytes: &[u8]) -> Result<(), Fault> {
    client.write_all(bytes).await.map_err(|_| Fault::Gone)
}

async fn answer_last<C: ByteStream>(client: &mut C, bytes: &[u8]) {
    if answer(client, bytes).await.is_ok() {
        close_gently(client).await;
    }
}
