/* What the parts of the library share. */
#ifndef HAWSER_SHIM_H
#define HAWSER_SHIM_H

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#define EXPORT __attribute__((visibility("default")))
#define NEXT ((void *)-1L)      /* RTLD_NEXT */
#define NOT_LOADED_ANEW (1 | 4) /* RTLD_LAZY | RTLD_NOLOAD */

/* In libdl before glibc 2.34, which a program need not have loaded. */
extern void *dlsym(void *from, const char *symbol) __attribute__((weak));
extern void *dlopen(const char *file, int mode) __attribute__((weak));

/* Questions to the daemon: may this socket connect; where does it lead; which address answers for
   this name server; for which name server does this address answer; may a datagram go there. */
enum { OP_CONNECT = 1, OP_PEER = 2, OP_STUB = 3, OP_SERVER = 4, OP_DATAGRAM = 5 };

/* Where a connection leads: the address in 4 or 16 bytes, as the program gave it. */
struct place {
    uint8_t family;
    int mapped; /* IPv4, written as ::ffff:a.b.c.d */
    uint8_t address[16];
    uint16_t port;
};

/* There are settings, so that there was a daemon. */
extern int ready;

/* What the next library in line has by that name. */
void find_next(void *where, const char *symbol);
int option(int fd, int level, int which, void *value, socklen_t length);
int number(int fd, int level, int which);
int read_place(const struct sockaddr *to, socklen_t length, struct place *place);
socklen_t write_place(const struct place *place, sa_family_t family, struct sockaddr_in6 *out);
/* The program has bound the socket to no device and given it no mark. */
int is_unbound(int fd);
/* Asks the daemon for the address that belongs to this one. 0: there is none; -1: no daemon. */
int counterpart(uint8_t operation, const struct place *place, struct place *found);

/* The daemon's address, in place of that of the name server that a question goes to. 0: it goes
   where it goes. */
int turn_question(int fd, const struct sockaddr *to, socklen_t *length, struct sockaddr_in6 *stub);
/* Datagrams of this socket may not go there, since they would go past the daemon. */
int is_refused(int fd, const struct sockaddr *to, socklen_t length);
/* The name server that an answer from `from` is to seem to come from. 0: from there. */
int source_of_answer(const struct place *from, struct place *server);

#endif
