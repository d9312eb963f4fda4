/*
 * What a program asks name servers goes to ports of the daemon's on loopback, each of which answers
 * for one server.
 *
 * The C library's resolver cannot be reached from outside: its calls do not come by here. But it
 * asks the servers that the thread's state names (`_res`, resolv.h), with their ports. So before
 * the calls that look names up, the daemon's ports are written there. Programs that ask by
 * themselves are turned with their sockets, and hear answers from the servers that they asked.
 *
 * Everything that goes wrong here ends in the question that the program asked.
 */

#include <errno.h>
#include <netdb.h>
#include <resolv.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim.h"

enum { NAME_PORT = 53, MAX_SHOWN = 64 /* datagrams of one call */ };

/* As in the C library, which declares it for programs that ask for extensions. */
struct messages {
    struct msghdr one;
    unsigned int length;
};

/* Something was turned here, so that answers may come from the daemon. */
static int has_turned;

/* What the next library in line does; none before they are found at load. */
static ssize_t (*next_recvfrom)(int, void *, size_t, int, struct sockaddr *, socklen_t *);
static ssize_t (*next_recvmsg)(int, struct msghdr *, int);
static int (*next_recvmmsg)(int, struct messages *, unsigned int, int, void *);
static int (*next_sendmmsg)(int, struct messages *, unsigned int, int);
static struct __res_state *(*own_state)(void);
static int (*first_init)(struct __res_state *);
static int (*init_again)(void);

__attribute__((constructor)) static void set_up(void)
{
    find_next(&next_recvfrom, "recvfrom");
    find_next(&next_recvmsg, "recvmsg");
    find_next(&next_recvmmsg, "recvmmsg");
    find_next(&next_sendmmsg, "sendmmsg");
    find_next(&own_state, "__res_state");
    find_next(&first_init, "__res_ninit");
    find_next(&init_again, "__res_init");
}

static int is_loopback(const struct place *place)
{
    static const uint8_t v4[16] = {127, 0, 0, 1}, v6[16] = {[15] = 1};
    return memcmp(place->address, place->family == 4 ? v4 : v6, sizeof v4) == 0;
}

/* One server of the C library's resolver. 0: none of the daemon's ports answers for it any more. */
static int turn_server(struct sockaddr *server, socklen_t length)
{
    struct place place, found;
    struct sockaddr_in6 address;
    if (!read_place(server, length, &place))
        return 1;
    if (place.port == NAME_PORT) {
        if (counterpart(OP_STUB, &place, &found) == 1) {
            write_place(&found, server->sa_family, &address);
            memcpy(server, &address, length);
            has_turned = 1;
        }
        return 1;
    }
    return !has_turned || !is_loopback(&place) || counterpart(OP_SERVER, &place, &found) >= 0;
}

static int turn_servers(struct __res_state *state)
{
    int stays = 1;
    for (int i = 0; i < state->nscount && i < MAXNS; i++) {
        struct sockaddr_in *v4 = &state->nsaddr_list[i];
        struct sockaddr_in6 *v6 = state->_u._ext.nsaddrs[i];
        if (v4->sin_family == AF_INET)
            stays &= turn_server((struct sockaddr *)v4, sizeof *v4);
        else if (v4->sin_family == 0 && v6 && v6->sin6_family == AF_INET6)
            stays &= turn_server((struct sockaddr *)v6, sizeof *v6);
    }
    return stays;
}

/* Before a call that looks names up: each thread has a state of its own, and the C library reads it
   anew when its file has changed. */
static void turn_resolver(void)
{
    int before = errno;
    if (!ready || !own_state || !first_init || !init_again)
        return;
    struct __res_state *state = own_state();
    if (state
        && (state->options & RES_INIT || first_init(state) == 0)
        && !turn_servers(state)) {
        /* The daemon has gone. */
        has_turned = 0;
        init_again();
    }
    errno = before;
}

/* A socket for questions that the program has not bound to anything. */
static int may_be_turned(int fd, sa_family_t family)
{
    static const struct in6_addr anywhere;
    struct place own;
    struct sockaddr_in6 address;
    socklen_t length = sizeof address;
    int type = number(fd, SOL_SOCKET, SO_TYPE);
    if ((type != SOCK_DGRAM && type != SOCK_STREAM) || number(fd, SOL_SOCKET, SO_DOMAIN) != family
        || !is_unbound(fd) || syscall(SYS_getsockname, fd, &address, &length) != 0
        || !read_place((struct sockaddr *)&address, length, &own))
        return 0;
    /* One that has asked before has the loopback address. */
    return is_loopback(&own) || memcmp(own.address, &anywhere, sizeof anywhere) == 0;
}

int turn_question(int fd, const struct sockaddr *to, socklen_t *length, struct sockaddr_in6 *stub)
{
    struct place place, found;
    int before = errno;
    if (!ready || !read_place(to, *length, &place) || place.port != NAME_PORT)
        return 0;
    int turned = may_be_turned(fd, to->sa_family) && counterpart(OP_STUB, &place, &found) == 1;
    errno = before;
    if (!turned)
        return 0;
    *length = write_place(&found, to->sa_family, stub);
    has_turned = 1;
    return 1;
}

int source_of_answer(const struct place *from, struct place *server)
{
    return ready && has_turned && is_loopback(from) && counterpart(OP_SERVER, from, server) == 1;
}

/* Writes the server over the daemon's address that an answer came from. */
static void show_server(struct sockaddr *from, socklen_t room, socklen_t length)
{
    struct place place, server;
    struct sockaddr_in6 address;
    int before = errno;
    if (has_turned && from && length <= room && read_place(from, length, &place)
        && source_of_answer(&place, &server)) {
        write_place(&server, from->sa_family, &address);
        memcpy(from, &address, length);
    }
    errno = before;
}

EXPORT ssize_t recvfrom(int fd, void *restrict data, size_t size, int flags,
                        struct sockaddr *restrict from, socklen_t *restrict length)
{
    ssize_t got;
    socklen_t room = length ? *length : 0;
    if (next_recvfrom)
        got = next_recvfrom(fd, data, size, flags, from, length);
    else
        got = syscall(SYS_recvfrom, fd, data, size, flags, from, length);
    if (got >= 0 && from && length)
        show_server(from, room, *length);
    return got;
}

/* What programs call whose compiler knows the size of their memory. */
EXPORT ssize_t __recvfrom_chk(int fd, void *data, size_t size, size_t memory, int flags,
                              struct sockaddr *from, socklen_t *length)
{
    if (size > memory)
        __builtin_trap();
    return recvfrom(fd, data, size, flags, from, length);
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    ssize_t got;
    socklen_t room = message ? message->msg_namelen : 0;
    if (next_recvmsg)
        got = next_recvmsg(fd, message, flags);
    else
        got = syscall(SYS_recvmsg, fd, message, flags);
    if (got >= 0 && message)
        show_server(message->msg_name, room, message->msg_namelen);
    return got;
}

EXPORT int recvmmsg(int fd, struct messages *all, unsigned int count, int flags, void *patience)
{
    int got, may_show = has_turned;
    socklen_t rooms[MAX_SHOWN];
    for (unsigned int i = 0; may_show && all && i < count && i < MAX_SHOWN; i++)
        rooms[i] = all[i].one.msg_namelen;
    if (next_recvmmsg)
        got = next_recvmmsg(fd, all, count, flags, patience);
    else
        got = (int)syscall(SYS_recvmmsg, fd, all, count, flags, patience);
    for (int i = 0; may_show && i < got && i < MAX_SHOWN; i++)
        show_server(all[i].one.msg_name, rooms[i], all[i].one.msg_namelen);
    return got;
}

static int send_messages(int fd, struct messages *all, unsigned int count, int flags)
{
    if (next_sendmmsg)
        return next_sendmmsg(fd, all, count, flags);
    return (int)syscall(SYS_sendmmsg, fd, all, count, flags);
}

EXPORT int sendmmsg(int fd, struct messages *all, unsigned int count, int flags)
{
    struct sockaddr_in6 stub;
    if (!all || count == 0)
        return send_messages(fd, all, count, flags);
    /* One that is turned goes alone: the program sends the rest with its next call. */
    struct messages first = all[0];
    if (!turn_question(fd, first.one.msg_name, &first.one.msg_namelen, &stub)) {
        /* So do those before one that is refused. */
        for (unsigned int i = 0; i < count; i++) {
            if (!is_refused(fd, all[i].one.msg_name, all[i].one.msg_namelen))
                continue;
            return i == 0 ? -1 : send_messages(fd, all, i, flags);
        }
        return send_messages(fd, all, count, flags);
    }
    first.one.msg_name = &stub;
    int sent = send_messages(fd, &first, 1, flags);
    if (sent == 1)
        all[0].length = first.length;
    return sent;
}

/* Before glibc 2.34 some are in a library of their own, which may have been loaded for another one
   only. */
static void find_lookup(void *where, const char *symbol)
{
    void *found, *library;
    find_next(where, symbol);
    memcpy(&found, where, sizeof found);
    if (found || !dlopen || !dlsym || !(library = dlopen("libresolv.so.2", NOT_LOADED_ANEW)))
        return;
    found = dlsym(library, symbol);
    memcpy(where, &found, sizeof found);
}

/* A function of the C library that looks names up if `does` holds; `failed` is for one that has
   none. Programs that lock themselves in call some of them for numbers only. */
#define LOOKS_UP(type, name, parameters, arguments, does, failed)                                 \
    static type(*next_##name) parameters;                                                         \
    __attribute__((constructor)) static void find_##name(void)                                    \
    {                                                                                             \
        find_lookup(&next_##name, #name);                                                         \
    }                                                                                             \
    EXPORT type name parameters                                                                   \
    {                                                                                             \
        if (does)                                                                                 \
            turn_resolver();                                                                      \
        /* Before the constructors, or in a library that came later. */                           \
        if (!next_##name)                                                                         \
            find_##name();                                                                        \
        return next_##name ? next_##name arguments : failed;                                      \
    }

LOOKS_UP(int, getaddrinfo,
         (const char *restrict host, const char *restrict service,
          const struct addrinfo *restrict hints, struct addrinfo **restrict found),
         (host, service, hints, found), host && !(hints && hints->ai_flags & AI_NUMERICHOST),
         EAI_FAIL)
LOOKS_UP(int, getnameinfo,
         (const struct sockaddr *restrict address, socklen_t length, char *restrict host,
          socklen_t host_size, char *restrict service, socklen_t service_size, int flags),
         (address, length, host, host_size, service, service_size, flags),
         !(flags & NI_NUMERICHOST), EAI_FAIL)
LOOKS_UP(struct hostent *, gethostbyname, (const char *host), (host), 1, NULL)
LOOKS_UP(struct hostent *, gethostbyname2, (const char *host, int family), (host, family), 1, NULL)
LOOKS_UP(struct hostent *, gethostbyaddr, (const void *address, socklen_t length, int family),
         (address, length, family), 1, NULL)
LOOKS_UP(int, gethostbyname_r,
         (const char *restrict host, struct hostent *restrict found, char *restrict memory,
          size_t size, struct hostent **restrict result, int *restrict problem),
         (host, found, memory, size, result, problem), 1, EAI_FAIL)
LOOKS_UP(int, gethostbyname2_r,
         (const char *restrict host, int family, struct hostent *restrict found,
          char *restrict memory, size_t size, struct hostent **restrict result,
          int *restrict problem),
         (host, family, found, memory, size, result, problem), 1, EAI_FAIL)
LOOKS_UP(int, gethostbyaddr_r,
         (const void *restrict address, socklen_t length, int family,
          struct hostent *restrict found, char *restrict memory, size_t size,
          struct hostent **restrict result, int *restrict problem),
         (address, length, family, found, memory, size, result, problem), 1, EAI_FAIL)

/* They have two names each, the second one for programs of earlier libraries. */
#undef res_query
#undef res_search
#undef res_querydomain
#undef res_send
#define ASKS(name, parameters, arguments)                                                         \
    LOOKS_UP(int, res_##name, parameters, arguments, 1, -1)                                       \
    LOOKS_UP(int, __res_##name, parameters, arguments, 1, -1)

ASKS(query, (const char *host, int class, int type, unsigned char *answer, int size),
     (host, class, type, answer, size))
ASKS(search, (const char *host, int class, int type, unsigned char *answer, int size),
     (host, class, type, answer, size))
ASKS(querydomain,
     (const char *host, const char *domain, int class, int type, unsigned char *answer, int size),
     (host, domain, class, type, answer, size))
ASKS(send, (const unsigned char *query, int length, unsigned char *answer, int size),
     (query, length, answer, size))
