/* A server over HTTP/1.1 that never limits: answers every request of its kept connections with 204. It looks for the end
 * of the head and the length of the body, no more, so that the generator is what a benchmark measures.
 *
 *   http_sink PORT
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
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROOM = 1 << 16, HEAD = 1 << 11 };

/* An unfinished head, or what is missing of a body. */
struct connection {
    unsigned kept_length;
    unsigned long skip;
    char kept[HEAD];
};

static struct connection *connections;
static char in[ROOM + HEAD + 1], out[ROOM];
static unsigned long requests;
static const char answer[] = "HTTP/1.1 204 No Content\r\n\r\n";

static void report(int signal) {
    (void)signal;
    dprintf(2, "%lu\n", requests);
    _exit(0);
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static unsigned long body_length(const char *head, const char *end) {
    for (const char *line = memchr(head, '\n', end - head); line && line < end; line = memchr(line, '\n', end - line)) {
        line++;
        if (end - line > 15 && !strncasecmp(line, "content-length:", 15)) return strtoul(line + 15, NULL, 10);
    }
    return 0;
}

/* Handles what was read; gives the bytes to answer. */
static size_t handle(struct connection *c, char *at, char *end) {
    size_t length = 0;
    for (;;) {
        unsigned long here = c->skip < (unsigned long)(end - at) ? c->skip : (unsigned long)(end - at);
        at += here;
        c->skip -= here;
        char *head_end = at < end ? memmem(at, end - at, "\r\n\r\n", 4) : NULL;
        if (!head_end) break;
        requests++;
        c->skip = body_length(at, head_end);
        at = head_end + 4;
        memcpy(out + length, answer, sizeof answer - 1);
        length += sizeof answer - 1;
    }
    c->kept_length = end - at;
    if (c->kept_length > HEAD) fail("a head of more than 2 KiB");
    memcpy(c->kept, at, c->kept_length);
    return length;
}

int main(int count, char **arguments) {
    if (count < 2) {
        fprintf(stderr, "usage: http_sink PORT\n");
        return 2;
    }
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    connections = calloc(limit.rlim_cur, sizeof *connections);
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
                    connections[accepted].kept_length = connections[accepted].skip = 0;
                    event.events = EPOLLIN;
                    event.data.fd = accepted;
                    epoll_ctl(epoll, EPOLL_CTL_ADD, accepted, &event);
                }
                continue;
            }
            struct connection *c = &connections[fd];
            memcpy(in, c->kept, c->kept_length);
            ssize_t got = read(fd, in + c->kept_length, ROOM);
            if (got <= 0) {
                if (got == 0 || (errno != EAGAIN && errno != EINTR)) close(fd);
                continue;
            }
            size_t length = handle(c, in, in + c->kept_length + got);
            if (length && write(fd, out, length) != (ssize_t)length) fail("a generator left its answers unread");
        }
    }
}
