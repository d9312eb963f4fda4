/* The other end of an association: usrsctp, over UDP (RFC 6951), in messages that count.
 *
 *   usrsctp send    LOCALS REMOTES BYTES MESSAGE CMT
 *   usrsctp receive LOCALS -       BYTES MESSAGE CMT
 *
 * LOCALS and REMOTES are IPv4 addresses with commas between them. CMT is 1 for concurrent multipath
 * transfer, 0 for one path at a time. Byte n of the payload is byte n % PERIOD of a row of hashes,
 * so that a byte that is lost, doubled or in the wrong place shows. The last line of the output
 * gives the bytes that came, the wrong ones among them, and the seconds that it took.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <usrsctp.h>

#define UDP_PORT 9899
#define SCTP_PORT 9
#define MOST_ADDRESSES 8
#define BUFFER (4 << 20)

static uint64_t hash(uint64_t n) {
  n += 0x9e3779b97f4a7c15ull;
  n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9ull;
  n = (n ^ (n >> 27)) * 0x94d049bb133111ebull;
  return n ^ (n >> 31);
}

/* A prime number of words, and room behind them for the longest message. */
#define PERIOD (8191 * 8)
#define LONGEST (1 << 20)
static unsigned char row[PERIOD + LONGEST];

static void fill_row(void) {
  for (size_t i = 0; i < sizeof row; i++)
    row[i] = (unsigned char)(hash(i % PERIOD / 8) >> (8 * (i % 8)));
}

/* What is sent at a place. */
static unsigned char *bytes_at(uint64_t place) {
  return row + place % PERIOD;
}

/* How many bytes are not what is sent at that place. */
static uint64_t wrong_at(const unsigned char *buffer, uint64_t place, size_t size) {
  const unsigned char *expected = bytes_at(place);
  uint64_t wrong = 0;
  if (memcmp(buffer, expected, size) != 0)
    for (size_t i = 0; i < size; i++)
      wrong += buffer[i] != expected[i];
  return wrong;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void fail(const char *what) {
  fprintf(stderr, "usrsctp: %s: %s\n", what, strerror(errno));
  exit(1);
}

static size_t addresses(char *list, struct sockaddr_in *out) {
  size_t count = 0;
  for (char *one = strtok(list, ","); one != NULL; one = strtok(NULL, ",")) {
    if (count == MOST_ADDRESSES) {
      fprintf(stderr, "usrsctp: more than %d addresses\n", MOST_ADDRESSES);
      exit(2);
    }
    memset(&out[count], 0, sizeof *out);
    out[count].sin_family = AF_INET;
    out[count].sin_port = htons(SCTP_PORT);
    if (inet_pton(AF_INET, one, &out[count].sin_addr) != 1) {
      fprintf(stderr, "usrsctp: %s is not an IPv4 address\n", one);
      exit(2);
    }
    count++;
  }
  return count;
}

static struct socket *open_socket(struct sockaddr_in *locals, size_t count) {
  struct socket *sock = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
  if (sock == NULL)
    fail("no socket");
  int size = BUFFER, on = 1;
  usrsctp_setsockopt(sock, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
  usrsctp_setsockopt(sock, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  usrsctp_setsockopt(sock, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on);
  struct sctp_udpencaps encaps;
  memset(&encaps, 0, sizeof encaps);
  encaps.sue_address.ss_family = AF_INET;
  encaps.sue_port = htons(UDP_PORT);
  if (usrsctp_setsockopt(sock, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encaps,
                         sizeof encaps) < 0)
    fail("no encapsulation");
  for (size_t i = 0; i < count; i++)
    if (usrsctp_bindx(sock, (struct sockaddr *)&locals[i], 1, SCTP_BINDX_ADD_ADDR) < 0)
      fail("can't bind");
  return sock;
}

static void send_all(struct socket *sock, uint64_t bytes, size_t message) {
  for (uint64_t done = 0; done < bytes;) {
    size_t size = bytes - done < message ? (size_t)(bytes - done) : message;
    struct sctp_sndinfo info;
    memset(&info, 0, sizeof info);
    ssize_t sent = usrsctp_sendv(sock, bytes_at(done), size, NULL, 0, &info, sizeof info,
                                 SCTP_SENDV_SNDINFO, 0);
    if (sent < 0)
      fail("can't send");
    done += size;
  }
}

static void report(const char *role, uint64_t bytes, uint64_t wrong, double span) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  double cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
               (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
  printf("{\"role\":\"%s\",\"bytes\":%llu,\"wrong\":%llu,\"seconds\":%.6f,\"cpu\":%.6f}\n", role,
         (unsigned long long)bytes, (unsigned long long)wrong, span, cpu);
  fflush(stdout);
}

static ssize_t receive(struct socket *sock, void *buffer, size_t size, int *flags) {
  struct sctp_rcvinfo info;
  struct sockaddr_storage from;
  socklen_t from_length = sizeof from, length = sizeof info;
  unsigned int kind = 0;
  *flags = 0;
  return usrsctp_recvv(sock, buffer, size, (struct sockaddr *)&from, &from_length, &info, &length,
                       &kind, flags);
}

static void receive_end(struct socket *sock) {
  char nothing[64];
  int flags;
  while (receive(sock, nothing, sizeof nothing, &flags) > 0) {
  }
}

static void receive_all(struct socket *sock, uint64_t bytes) {
  static unsigned char buffer[LONGEST];
  uint64_t done = 0, wrong = 0;
  double began = 0;
  while (done < bytes) {
    int flags;
    ssize_t got = receive(sock, buffer, sizeof buffer, &flags);
    if (got <= 0)
      break;
    if (flags & MSG_NOTIFICATION)
      continue;
    if (began == 0) {
      began = seconds();
      printf("began\n");
      fflush(stdout);
    }
    wrong += wrong_at(buffer, done, (size_t)got);
    done += (uint64_t)got;
  }
  report("receive", done, wrong, seconds() - began);
}

int main(int argc, char **argv) {
  if (argc != 7) {
    fprintf(stderr, "usage: usrsctp send|receive LOCALS REMOTES|- BYTES MESSAGE CMT\n");
    return 2;
  }
  fill_row();
  struct sockaddr_in locals[MOST_ADDRESSES], remotes[MOST_ADDRESSES];
  size_t local_count = addresses(argv[2], locals);
  uint64_t bytes = strtoull(argv[4], NULL, 10);
  size_t message = (size_t)strtoull(argv[5], NULL, 10);
  usrsctp_init(UDP_PORT, NULL, NULL);
  usrsctp_sysctl_set_sctp_cmt_on_off((uint32_t)atoi(argv[6]));
  usrsctp_sysctl_set_sctp_blackhole(2);
  /* With its default, 5, a path that has fallen silent is left after a minute. */
  usrsctp_sysctl_set_sctp_path_rtx_max_default(2);
  usrsctp_sysctl_set_sctp_recvspace(BUFFER);
  usrsctp_sysctl_set_sctp_sendspace(BUFFER);
  struct socket *sock = open_socket(locals, local_count);
  if (strcmp(argv[1], "receive") == 0) {
    if (usrsctp_listen(sock, 1) < 0)
      fail("can't listen");
    printf("listening\n");
    fflush(stdout);
    struct socket *peer = usrsctp_accept(sock, NULL, NULL);
    if (peer == NULL)
      fail("can't accept");
    receive_all(peer, bytes);
    usrsctp_close(peer);
  } else {
    size_t count = addresses(argv[3], remotes);
    sctp_assoc_t id = 0;
    if (usrsctp_connectx(sock, (struct sockaddr *)remotes, (int)count, &id) < 0)
      fail("can't connect");
    double began = seconds();
    send_all(sock, bytes, message);
    usrsctp_shutdown(sock, SHUT_WR);
    /* Until the peer has everything. */
    receive_end(sock);
    report("send", bytes, 0, seconds() - began);
  }
  usrsctp_close(sock);
  for (int tries = 0; usrsctp_finish() != 0 && tries < 50; tries++)
    usleep(100000);
  return 0;
}
