/* A server of CoAP over TCP (RFC 8323) that does nothing but answer: each request with 2.04, a CSM with a CSM, a ping with a pong.
 *
 *   coap_tcp_sink PORT
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_SIZE = 1 << 18, KEPT = 1 << 12, CSM = 0xe1, PING = 0xe2, PONG = 0xe3, CHANGED = 0x44 };

/* What is kept of a message that is not whole. */
struct connection {
    size_t kept_length;
    unsigned char kept[KEPT];
};

static struct connection *connections;
static unsigned char in[KEPT + READ_SIZE], out[READ_SIZE + KEPT];
static unsigned long messages;

static void report(int signal) {
    (void)signal;
    dprintf(2, "%lu\n", messages);
    _exit(0);
}

/* Handles what was read; gives the bytes to answer, and how many bytes were whole messages. */
static size_t handle(size_t length, size_t *used) {
    size_t at = 0, answer = 0;
    while (at < length) {
        const unsigned char *p = in + at;
        size_t left = length - at, nibble = p[0] >> 4, token = p[0] & 15;
        size_t more = nibble < 13 ? 0 : nibble == 13 ? 1 : nibble == 14 ? 2 : 4;
        if (left < 2 + more + token) break;
        size_t body = nibble;
        if (more == 1) body = 13 + p[1];
        if (more == 2) body = 269 + (p[1] << 8 | p[2]);
        if (more == 4) body = 65805 + ((size_t)p[1] << 24 | p[2] << 16 | p[3] << 8 | p[4]);
        size_t whole = 2 + more + token + body;
        if (left < whole) break;
        unsigned code = p[1 + more];
        int is_request = code > 0 && code < 32;
        if (is_request || code == CSM || code == PING) {
            messages += is_request;
            out[answer++] = token;
            out[answer++] = is_request ? CHANGED : code == CSM ? CSM : PONG;
            memcpy(out + answer, p + 2 + more, token);
            answer += token;
        }
        at += whole;
    }
    *used = at;
    return answer;
}

int main(int count, char **arguments) {
    if (count < 2) {
        fprintf(stderr, "usage: coap_tcp_sink PORT\n");
        return 2;
    }
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    connections = calloc(limit.rlim_max, sizeof *connections);
    signal(SIGTERM, report);
    signal(SIGPIPE, SIG_IGN);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[1])),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int door = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(door, (struct sockaddr *)&address, sizeof address) || listen(door, 4096)) {
        perror("bind");
        return 1;
    }
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = door};
    epoll_ctl(epoll, EPOLL_CTL_ADD, door, &event);
    for (;;) {
        struct epoll_event ready[256];
        int n = epoll_wait(epoll, ready, 256, -1);
        for (int i = 0; i < n; i++) {
            int fd = ready[i].data.fd;
            if (fd == door) {
                int client = accept(door, NULL, NULL);
                if (client < 0) continue;
                setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                connections[client].kept_length = 0;
                event = (struct epoll_event){.events = EPOLLIN, .data.fd = client};
                epoll_ctl(epoll, EPOLL_CTL_ADD, client, &event);
                continue;
            }
            struct connection *c = connections + fd;
            memcpy(in, c->kept, c->kept_length);
            ssize_t came = read(fd, in + c->kept_length, READ_SIZE);
            if (came <= 0) {
                close(fd);
                continue;
            }
            size_t length = c->kept_length + came, used, answer = handle(length, &used);
            c->kept_length = length - used;
            if (c->kept_length > KEPT) {
                fprintf(stderr, "a message of more than %d bytes was cut\n", KEPT);
                return 1;
            }
            memcpy(c->kept, in + used, c->kept_length);
            for (size_t gone = 0; gone < answer;) {
                ssize_t written = write(fd, out + gone, answer - gone);
                if (written < 0) break;
                gone += written;
            }
        }
    }
}
