/* The simplest program that has so many confirmable POSTs under way, one on each socket: pre-encoded, only the message
 * id and the token count up; each answer lets the next request go.
 *
 *   coap_floor PORT SOCKETS SECONDS SIZE
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

static unsigned char request[2048] = "\x46\x02" "IDTOKENT" "\xb8plimsoll" "\x05" "bench" "\x02" "00" "\xff";
enum { HEAD = 4 + 6 + 9 + 6 + 3 + 1 };
static size_t length;
static unsigned count;

static void ask(int fd) {
    count++;
    memcpy(request + 2, &count, 2);
    memcpy(request + 4, &count, 4);
    if (send(fd, request, length, 0) < 0) perror("send");
}

int main(int arguments_count, char **arguments) {
    if (arguments_count < 5) {
        fprintf(stderr, "usage: coap_floor PORT SOCKETS SECONDS SIZE\n");
        return 2;
    }
    size_t size = strtoul(arguments[4], NULL, 10);
    if (size > sizeof request - HEAD) return 2;
    memset(request + HEAD, 'x', size);
    length = HEAD + size;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[1])),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int epoll = epoll_create1(0);
    for (int i = 0; i < atoi(arguments[2]); i++) {
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        if (connect(fd, (struct sockaddr *)&address, sizeof address)) return 1;
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
        ask(fd);
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    time_t end = now.tv_sec + atoi(arguments[3]);
    unsigned long answers = 0;
    while (now.tv_sec < end) {
        struct epoll_event ready[256];
        int n = epoll_wait(epoll, ready, 256, 100);
        for (int i = 0; i < n; i++) {
            unsigned char answer[2048];
            if (recv(ready[i].data.fd, answer, sizeof answer, 0) <= 0) continue;
            answers++;
            ask(ready[i].data.fd);
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
    }
    printf("%lu answers\n", answers);
}
