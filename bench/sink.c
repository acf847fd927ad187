/* A sink that never limits: takes MQTT 3.1.1 and 5, acknowledges QoS 1, answers PINGREQ and SUBSCRIBE, delivers
 * nothing. It looks at no more of a packet than it must, so that the generator is what a benchmark measures.
 *
 *   sink PORT [CONNECTIONS]
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
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

enum { READ_SIZE = 1 << 18, KEPT = 1 << 12 };

/* What is known of a connection between two readings. */
struct connection {
    unsigned char version;
    unsigned kept_length;        /* bytes of an unfinished packet's head */
    unsigned long skip;          /* bytes of a packet whose head was handled */
    unsigned char kept[64];
};

static struct connection *connections;
static unsigned char in[READ_SIZE + 64], out[READ_SIZE];
static unsigned long messages;

static void report(int signal) {
    (void)signal;
    dprintf(2, "%lu\n", messages);
    _exit(0);
}

/* Handles what was read; gives the bytes to answer. Only the head of a packet is kept when it is cut. */
static size_t handle(struct connection *c, size_t length) {
    size_t at = 0, answer = 0;
    if (c->skip >= length) {
        c->skip -= length;
        return 0;
    }
    at = c->skip;
    c->skip = 0;
    while (at < length) {
        unsigned char *p = in + at;
        size_t left = length - at, head = 1, remaining = 0, shift = 0;
        while (head < left && head < 5) {
            remaining |= (size_t)(p[head] & 127) << shift;
            shift += 7;
            if (!(p[head++] & 128)) goto whole_head;
        }
        break;
    whole_head:;
        unsigned type = p[0] >> 4, qos = p[0] >> 1 & 3;
        size_t needed = head;
        if (type == 1) needed = head + 7;
        if (type == 8) needed = head + remaining;
        if (type == 3 && qos) {
            if (left < head + 2) break;
            needed = head + 2 + (p[head] << 8 | p[head + 1]) + 2;
        }
        if (needed > left) break;
        if (type == 1) {
            c->version = p[head + 6];
            unsigned char v3[] = {0x20, 2, 0, 0}, v5[] = {0x20, 3, 0, 0, 0};
            size_t n = c->version == 5 ? sizeof v5 : sizeof v3;
            memcpy(out + answer, c->version == 5 ? v5 : v3, n);
            answer += n;
        } else if (type == 3) {
            messages++;
            if (qos) {
                unsigned char ack[] = {0x40, 2, p[needed - 2], p[needed - 1]};
                memcpy(out + answer, ack, sizeof ack);
                answer += sizeof ack;
            }
        } else if (type == 8) {
            unsigned char v3[] = {0x90, 3, p[head], p[head + 1], qos}, v5[] = {0x90, 4, p[head], p[head + 1], 0, qos};
            size_t n = c->version == 5 ? sizeof v5 : sizeof v3;
            memcpy(out + answer, c->version == 5 ? v5 : v3, n);
            answer += n;
        } else if (type == 12) {
            out[answer++] = 0xd0;
            out[answer++] = 0;
        }
        size_t whole = head + remaining;
        if (whole > left) {
            c->skip = whole - left;
            return answer;
        }
        at += whole;
    }
    c->kept_length = length - at;
    if (c->kept_length > sizeof c->kept) {
        fprintf(stderr, "a packet's head of more than %zu bytes was cut\n", sizeof c->kept);
        exit(1);
    }
    memcpy(c->kept, in + at, c->kept_length);
    return answer;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

int main(int count, char **arguments) {
    if (count < 2) {
        fprintf(stderr, "usage: sink PORT\n");
        return 2;
    }
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    connections = calloc(limit.rlim_max, sizeof *connections);
    signal(SIGTERM, report);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1, epoll = epoll_create1(0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[1])),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (struct sockaddr *)&address, sizeof address)) fail("bind");
    if (listen(listener, 4096)) fail("listen");
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, ready[256];
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int n = epoll_wait(epoll, ready, 256, -1);
        for (int i = 0; i < n; i++) {
            int fd = ready[i].data.fd;
            if (fd == listener) {
                int accepted;
                while ((accepted = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                    setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                    memset(&connections[accepted], 0, sizeof *connections);
                    event.events = EPOLLIN;
                    event.data.fd = accepted;
                    epoll_ctl(epoll, EPOLL_CTL_ADD, accepted, &event);
                }
                continue;
            }
            struct connection *c = &connections[fd];
            memcpy(in, c->kept, c->kept_length);
            ssize_t got = read(fd, in + c->kept_length, READ_SIZE / 2);
            if (got <= 0) {
                if (got == 0 || (errno != EAGAIN && errno != EINTR)) close(fd);
                continue;
            }
            size_t length = c->kept_length + got;
            c->kept_length = 0;
            size_t answer = handle(c, length);
            /* A generator that does not read its acknowledgements is not what is measured here. */
            if (answer && write(fd, out, answer) != (ssize_t)answer) fail("a generator left its acknowledgements unread");
        }
    }
}
