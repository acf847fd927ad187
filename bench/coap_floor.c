/* The simplest program that has so many confirmable POSTs under way on each socket: pre-encoded, only the message id and
 * the token count up; each answer lets the next request go. With one on a socket each request is a call. With several it
 * sleeps 0.1 ms before it looks, reads all that came with one call, and hands over as many requests with another
 * (segmentation offload).
 *
 *   coap_floor PORT SOCKETS SECONDS SIZE [UNDER_WAY]
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

enum { HEAD = 4 + 6 + 9 + 6 + 3 + 1, LARGEST = 1024, MOST = 64 };
static const unsigned char head[] = "\x46\x02" "IDTOKENT" "\xb8plimsoll" "\x05" "bench" "\x02" "00" "\xff";
static unsigned char requests[MOST * LARGEST];
static size_t length;
static unsigned count;

static void ask(int fd, int times) {
    for (int i = 0; i < times; i++) {
        count++;
        memcpy(requests + i * length + 2, &count, 2);
        memcpy(requests + i * length + 4, &count, 4);
    }
    if (times > 0 && send(fd, requests, times * length, 0) < 0) perror("send");
}

static int answers_at(int fd) {
    static unsigned char room[MOST][LARGEST];
    struct iovec places[MOST];
    struct mmsghdr messages[MOST];
    for (int i = 0; i < MOST; i++) {
        places[i] = (struct iovec){room[i], LARGEST};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &places[i], .msg_iovlen = 1};
    }
    int came = recvmmsg(fd, messages, MOST, 0, NULL);
    return came > 0 ? came : 0;
}

int main(int arguments_count, char **arguments) {
    if (arguments_count < 5) {
        fprintf(stderr, "usage: coap_floor PORT SOCKETS SECONDS SIZE [UNDER_WAY]\n");
        return 2;
    }
    size_t size = strtoul(arguments[4], NULL, 10);
    int under_way = arguments_count > 5 ? atoi(arguments[5]) : 1;
    if (size > LARGEST - HEAD) return 2;
    length = HEAD + size;
    for (int i = 0; i < MOST; i++) {
        memcpy(requests + i * length, head, HEAD);
        memset(requests + i * length + HEAD, 'x', size);
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[1])),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int epoll = epoll_create1(0), segment = length;
    for (int i = 0; i < atoi(arguments[2]); i++) {
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        if (connect(fd, (struct sockaddr *)&address, sizeof address)) return 1;
        if (under_way > 1 && setsockopt(fd, SOL_UDP, UDP_SEGMENT, &segment, sizeof segment)) return 1;
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
        for (int asked = 0; asked < under_way; asked += MOST) {
            ask(fd, under_way - asked < MOST ? under_way - asked : MOST);
        }
    }
    struct timespec now, pause = {0, 100000};
    clock_gettime(CLOCK_MONOTONIC, &now);
    time_t end = now.tv_sec + atoi(arguments[3]);
    unsigned long answers = 0;
    while (now.tv_sec < end) {
        struct epoll_event ready[256];
        if (under_way > 1) clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        int n = epoll_wait(epoll, ready, 256, 100);
        for (int i = 0; i < n; i++) {
            unsigned char answer[LARGEST];
            int fd = ready[i].data.fd;
            int came = under_way > 1 ? answers_at(fd) : recv(fd, answer, sizeof answer, 0) > 0;
            answers += came;
            ask(fd, came);
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
    }
    printf("%lu answers\n", answers);
}
