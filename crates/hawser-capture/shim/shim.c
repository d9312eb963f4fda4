/*
 * Loaded into a program ahead of the C library. Its TCP connections go to a port of Hawser's on
 * loopback, which is told before where each of them was to lead. Everything that goes wrong here
 * ends in the connection that the program asked for. What it asks name servers is in names.c.
 *
 * There is no state beside the settings read at load, and that names were asked for: no lock, no
 * memory, no table of descriptors. So threads, forks and signal handlers need no care, and dup and
 * close are not intercepted. A connection is known to both sides by the cookie that the kernel
 * gives each socket.
 *
 * The C library is not linked against, so that a program with an older one, or another one, still
 * starts; the few symbols that are taken from it are in all of them.
 *
 * The messages are described in src/shim/message.rs.
 */

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "shim.h"

#ifndef MSG_FASTOPEN
#define MSG_FASTOPEN 0x20000000
#endif
#ifndef SO_COOKIE
#define SO_COOKIE 57
#endif

enum { VERSION = 1, VERDICT_REDIRECT = 1, VERDICT_ADDRESS = 2, VERDICT_REFUSE = 3 };
enum { NAME_LENGTH = 32, TOKEN_LENGTH = 16, PATIENCE_SECONDS = 1, MAX_INTERRUPTIONS = 16 };

struct request {
    uint8_t magic[4];
    uint8_t version;
    uint8_t operation;
    uint8_t family; /* 4, 6; 0 where there is no address */
    uint8_t reserved;
    uint8_t token[TOKEN_LENGTH];
    uint8_t cookie[8]; /* the least significant byte first */
    uint8_t port[2];   /* the most significant byte first, as everywhere below */
    uint8_t address[16];
};

struct answer {
    uint8_t version;
    uint8_t verdict;
    uint8_t family;
    uint8_t reserved;
    uint8_t port[2];
    uint8_t address[16];
};

/* The settings: HAWSER_SHIM=NAME/TOKEN/PORT/PORT6/HOLDS, the name of an abstract socket, a secret
   in hexadecimal, the ports of 127.0.0.1 and of ::1, which may be 0, and whether there may be
   destinations to which datagrams are refused, 0 or 1. */
static char name[NAME_LENGTH];
static uint8_t token[TOKEN_LENGTH];
static uint16_t port4, port6;
static int holds;
int ready;

/* What the next library in line does, the C library mostly; none before this one is set up. */
static int (*next_connect)(int, const struct sockaddr *, socklen_t);
static ssize_t (*next_sendto)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
static ssize_t (*next_sendmsg)(int, const struct msghdr *, int);
static int (*next_getpeername)(int, struct sockaddr *, socklen_t *);

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

static const char *read_port(const char *text, uint16_t *port)
{
    unsigned value = 0;
    const char *c = text;
    while (*c >= '0' && *c <= '9' && c < text + 5)
        value = value * 10 + (unsigned)(*c++ - '0');
    if (c == text || value > UINT16_MAX)
        return NULL;
    *port = (uint16_t)value;
    return c;
}

static void read_settings(void)
{
    const char *text = getenv("HAWSER_SHIM");
    if (!text)
        return;
    int length = 0;
    while (text[length] && text[length] != '/') {
        if (length == NAME_LENGTH)
            return;
        name[length] = text[length];
        length++;
    }
    if (length != NAME_LENGTH || text[length] != '/')
        return;
    text += length + 1;
    for (int i = 0; i < TOKEN_LENGTH; i++, text += 2) {
        int high = hex_digit(text[0]);
        int low = high < 0 ? -1 : hex_digit(text[1]);
        if (low < 0)
            return;
        token[i] = (uint8_t)(high << 4 | low);
    }
    if (*text != '/' || !(text = read_port(text + 1, &port4)))
        return;
    if (*text != '/' || !(text = read_port(text + 1, &port6)))
        return;
    if (text[0] != '/' || (text[1] != '0' && text[1] != '1') || text[2])
        return;
    holds = text[1] == '1';
    ready = 1;
}

void find_next(void *where, const char *symbol)
{
    void *found = dlsym ? dlsym(NEXT, symbol) : NULL;
    memcpy(where, &found, sizeof found);
}

__attribute__((constructor)) static void set_up(void)
{
    find_next(&next_connect, "connect");
    find_next(&next_sendto, "sendto");
    find_next(&next_sendmsg, "sendmsg");
    find_next(&next_getpeername, "getpeername");
    read_settings();
}

int option(int fd, int level, int which, void *value, socklen_t length)
{
    return (int)syscall(SYS_getsockopt, fd, level, which, value, &length);
}

int number(int fd, int level, int which)
{
    int value = -1;
    return option(fd, level, which, &value, sizeof value) == 0 ? value : -1;
}

static int is_mapped(const struct in6_addr *ip)
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
    return memcmp(ip->s6_addr, prefix, sizeof prefix) == 0;
}

/* Copies what cannot be read as what it is written over: the caller's address may lie anywhere. */
int read_place(const struct sockaddr *to, socklen_t length, struct place *place)
{
    memset(place, 0, sizeof *place);
    if (!to || length < (socklen_t)sizeof(sa_family_t))
        return 0;
    if (to->sa_family == AF_INET && length >= (socklen_t)sizeof(struct sockaddr_in)) {
        struct sockaddr_in v4;
        memcpy(&v4, to, sizeof v4);
        place->family = 4;
        memcpy(place->address, &v4.sin_addr, 4);
        place->port = ntohs(v4.sin_port);
        return 1;
    }
    if (to->sa_family == AF_INET6 && length >= (socklen_t)sizeof(struct sockaddr_in6)) {
        struct sockaddr_in6 v6;
        memcpy(&v6, to, sizeof v6);
        place->mapped = is_mapped(&v6.sin6_addr);
        place->family = place->mapped ? 4 : 6;
        if (place->mapped)
            memcpy(place->address, v6.sin6_addr.s6_addr + 12, 4);
        else
            memcpy(place->address, v6.sin6_addr.s6_addr, 16);
        place->port = ntohs(v6.sin6_port);
        return 1;
    }
    return 0;
}

/* What never leaves by an uplink. The daemon knows more of that, such as this machine's own
   addresses; this saves asking it. */
static int may_lead_out(const struct place *place)
{
    const uint8_t *a = place->address;
    if (place->port == 0)
        return 0;
    if (place->family == 4)
        return a[0] != 0 && a[0] != 127 && a[0] < 224 && !(a[0] == 169 && a[1] == 254);
    int zeros = 0;
    while (zeros < 15 && a[zeros] == 0)
        zeros++;
    if (zeros == 15 && a[15] <= 1)
        return 0;
    return a[0] != 0xff && !(a[0] == 0xfe && (a[1] & 0xc0) == 0x80);
}

int is_unbound(int fd)
{
    char device[16] = "";
    if (option(fd, SOL_SOCKET, SO_BINDTODEVICE, device, sizeof device) == 0 && device[0])
        return 0;
    return number(fd, SOL_SOCKET, SO_MARK) <= 0;
}

/* A TCP socket that has not been used yet and that the program has not bound to anything. */
static int may_be_taken(int fd, sa_family_t family)
{
    uint8_t state = 0;
    static const struct in6_addr anywhere;
    struct sockaddr_in6 own;
    socklen_t length = sizeof own;
    if (number(fd, SOL_SOCKET, SO_TYPE) != SOCK_STREAM
        || number(fd, SOL_SOCKET, SO_PROTOCOL) != IPPROTO_TCP
        || number(fd, SOL_SOCKET, SO_DOMAIN) != family)
        return 0;
    if (option(fd, IPPROTO_TCP, TCP_INFO, &state, sizeof state) != 0 || state != TCP_CLOSE)
        return 0;
    if (!is_unbound(fd))
        return 0;
    memset(&own, 0, sizeof own);
    if (syscall(SYS_getsockname, fd, &own, &length) != 0 || own.sin6_port != 0)
        return 0;
    /* Ports are at the same place in both; so is nothing else. */
    if (family == AF_INET)
        return ((struct sockaddr_in *)&own)->sin_addr.s_addr == INADDR_ANY;
    return memcmp(&own.sin6_addr, &anywhere, sizeof anywhere) == 0;
}

static int read_whole(int fd, void *to, size_t length)
{
    size_t done = 0;
    for (int tries = 0; done < length && tries < MAX_INTERRUPTIONS; tries++) {
        long got = syscall(SYS_read, fd, (char *)to + done, length - done);
        if (got > 0)
            done += (size_t)got;
        else if (got == 0 || errno != EINTR)
            return 0;
    }
    return done == length;
}

static int exchange(int fd, const struct request *request, struct answer *answer)
{
    struct sockaddr_un daemon = {.sun_family = AF_UNIX};
    struct timeval patience = {.tv_sec = PATIENCE_SECONDS};
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + NAME_LENGTH);
    memcpy(daemon.sun_path + 1, name, NAME_LENGTH);
    syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (syscall(SYS_connect, fd, &daemon, length) != 0)
        return 0;
    /* So little always fits. */
    if (syscall(SYS_sendto, fd, request, sizeof *request, MSG_NOSIGNAL, NULL, 0) != sizeof *request)
        return 0;
    return read_whole(fd, answer, sizeof *answer) && answer->version == VERSION;
}

/* Asks the daemon about the socket `fd`, or about an address if that is negative. */
static int ask(int fd, uint8_t operation, const struct place *place, struct answer *answer)
{
    struct request request = {
        .magic = {'h', 'w', 's', 'r'}, .version = VERSION, .operation = operation};
    uint64_t cookie = 0;
    if (fd >= 0 && (option(fd, SOL_SOCKET, SO_COOKIE, &cookie, sizeof cookie) != 0 || cookie == 0))
        return 0;
    for (int i = 0; i < 8; i++)
        request.cookie[i] = (uint8_t)(cookie >> (8 * i));
    memcpy(request.token, token, sizeof token);
    if (place) {
        request.family = place->family;
        request.port[0] = (uint8_t)(place->port >> 8);
        request.port[1] = (uint8_t)place->port;
        memcpy(request.address, place->address, sizeof request.address);
    }
    long socket = syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket < 0)
        return 0;
    int answered = exchange((int)socket, &request, answer);
    syscall(SYS_close, socket);
    return answered;
}

/* An address as a socket of the domain `family` has it; its length. */
socklen_t write_place(const struct place *place, sa_family_t family, struct sockaddr_in6 *out)
{
    memset(out, 0, sizeof *out);
    if (family == AF_INET) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)out;
        v4->sin_family = AF_INET;
        v4->sin_port = htons(place->port);
        memcpy(&v4->sin_addr, place->address, 4);
        return sizeof *v4;
    }
    out->sin6_family = AF_INET6;
    out->sin6_port = htons(place->port);
    if (place->family == 6) {
        memcpy(out->sin6_addr.s6_addr, place->address, 16);
    } else {
        out->sin6_addr.s6_addr[10] = out->sin6_addr.s6_addr[11] = 0xff;
        memcpy(out->sin6_addr.s6_addr + 12, place->address, 4);
    }
    return sizeof *out;
}

static void read_answer(const struct answer *answer, struct place *place)
{
    memset(place, 0, sizeof *place);
    place->family = answer->family;
    place->port = (uint16_t)(answer->port[0] << 8 | answer->port[1]);
    memcpy(place->address, answer->address, sizeof place->address);
}

int counterpart(uint8_t operation, const struct place *place, struct place *found)
{
    struct answer answer;
    if (!ask(-1, operation, place, &answer))
        return -1;
    if (answer.verdict != VERDICT_ADDRESS)
        return 0;
    read_answer(&answer, found);
    return found->family == place->family;
}

static void loopback(uint8_t family, struct place *place)
{
    memset(place, 0, sizeof *place);
    place->family = family;
    place->port = family == 4 ? port4 : port6;
    if (family == 4) {
        place->address[0] = 127;
        place->address[3] = 1;
    } else {
        place->address[15] = 1;
    }
}

/* Connects to the daemon instead, if it wants that. 0: the program's own connection is due. */
static int take(int fd, const struct sockaddr *to, socklen_t length, int *result)
{
    struct place place, instead;
    struct answer answer;
    struct sockaddr_in6 address;
    if (!ready || !read_place(to, length, &place) || !may_lead_out(&place))
        return 0;
    loopback(place.family, &instead);
    if (instead.port == 0 || !may_be_taken(fd, to->sa_family))
        return 0;
    if (!ask(fd, OP_CONNECT, &place, &answer) || answer.verdict != VERDICT_REDIRECT)
        return 0;
    length = write_place(&instead, to->sa_family, &address);
    *result = (int)syscall(SYS_connect, fd, &address, length);
    /* Anything else says that the daemon has just gone, or that loopback has no port left. */
    return *result == 0 || errno == EINPROGRESS || errno == EINTR;
}

/* Connects to the daemon if that answers for the name server there. 0: otherwise. */
static int take_question(int fd, const struct sockaddr *to, socklen_t length, int *result)
{
    struct sockaddr_in6 stub;
    if (!turn_question(fd, to, &length, &stub))
        return 0;
    *result = (int)syscall(SYS_connect, fd, &stub, length);
    return *result == 0 || errno == EINPROGRESS || errno == EINTR;
}

int is_refused(int fd, const struct sockaddr *to, socklen_t length)
{
    struct place place;
    struct answer answer;
    int before = errno;
    int refused = ready && holds && read_place(to, length, &place) && may_lead_out(&place)
                  && number(fd, SOL_SOCKET, SO_TYPE) == SOCK_DGRAM && is_unbound(fd)
                  && ask(-1, OP_DATAGRAM, &place, &answer) && answer.verdict == VERDICT_REFUSE;
    errno = refused ? EPERM : before;
    return refused;
}

EXPORT int connect(int fd, const struct sockaddr *to, socklen_t length)
{
    int result, before = errno;
    if (is_refused(fd, to, length))
        return -1;
    if (take_question(fd, to, length, &result) || take(fd, to, length, &result))
        return result;
    errno = before;
    if (next_connect)
        return next_connect(fd, to, length);
    return (int)syscall(SYS_connect, fd, to, length);
}

/* The kernel makes a connection when this flag asks for it (RFC 7413). Whether the data goes with
   the first packet or behind it makes no difference to the program. 0: the program's own call is
   due. */
static int open_fast(int fd, int flags, const struct sockaddr *to, socklen_t length, int *result)
{
    int before = errno;
    if (flags & MSG_FASTOPEN
        && (take_question(fd, to, length, result) || take(fd, to, length, result)))
        return 1;
    errno = before;
    return 0;
}

EXPORT ssize_t sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *to,
                      socklen_t length)
{
    int result;
    struct sockaddr_in6 stub;
    if (open_fast(fd, flags, to, length, &result)) {
        if (result != 0)
            return result;
        flags &= ~MSG_FASTOPEN;
        to = NULL;
        length = 0;
    } else if (turn_question(fd, to, &length, &stub)) {
        to = (const struct sockaddr *)&stub;
    } else if (is_refused(fd, to, length)) {
        return -1;
    }
    if (next_sendto)
        return next_sendto(fd, data, size, flags, to, length);
    return syscall(SYS_sendto, fd, data, size, flags, to, length);
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    int result;
    struct msghdr rest;
    struct sockaddr_in6 stub;
    if (message && open_fast(fd, flags, message->msg_name, message->msg_namelen, &result)) {
        if (result != 0)
            return result;
        rest = *message;
        rest.msg_name = NULL;
        rest.msg_namelen = 0;
        message = &rest;
        flags &= ~MSG_FASTOPEN;
    } else if (message) {
        rest = *message;
        if (turn_question(fd, rest.msg_name, &rest.msg_namelen, &stub)) {
            rest.msg_name = &stub;
            message = &rest;
        } else if (is_refused(fd, rest.msg_name, rest.msg_namelen)) {
            return -1;
        }
    }
    if (next_sendmsg)
        return next_sendmsg(fd, message, flags);
    return syscall(SYS_sendmsg, fd, message, flags);
}

/* Where the socket really leads, when what the kernel says is Hawser's port. */
static int original(int fd, const struct sockaddr_in6 *said, socklen_t length, struct place *place)
{
    struct place now, instead;
    struct answer answer;
    if (!read_place((const struct sockaddr *)said, length, &now))
        return 0;
    if (source_of_answer(&now, place))
        return 1;
    loopback(now.family, &instead);
    if (now.port != instead.port || memcmp(now.address, instead.address, sizeof now.address) != 0)
        return 0;
    if (!ask(fd, OP_PEER, NULL, &answer) || answer.verdict != VERDICT_ADDRESS)
        return 0;
    read_answer(&answer, place);
    return place->family == now.family;
}

EXPORT int getpeername(int fd, struct sockaddr *restrict address, socklen_t *restrict length)
{
    struct sockaddr_in6 said, peer;
    struct place place;
    socklen_t said_length = sizeof said;
    int before = errno;
    if (!ready || !address || !length || (int)*length < 0
        || syscall(SYS_getpeername, fd, &said, &said_length) != 0
        || !original(fd, &said, said_length, &place)) {
        errno = before;
        if (next_getpeername)
            return next_getpeername(fd, address, length);
        return (int)syscall(SYS_getpeername, fd, address, length);
    }
    errno = before;
    socklen_t whole = write_place(&place, said.sin6_family, &peer);
    memcpy(address, &peer, *length < whole ? *length : whole);
    *length = whole;
    return 0;
}
