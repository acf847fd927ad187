/* The simplest program that has so many POSTs under way on each connection of CoAP over TCP: pre-encoded, only the token counts up; each
 * answer lets the next request go. What one reading answers goes with one call. With several under way it sleeps so many microseconds before
 * it looks, by default 100: many answers then wait for each look. Eager, with 0, it goes on with the first answer.
 *
 *   coap_tcp_floor PORT CONNECTIONS SECONDS SIZE [UNDER_WAY [PAUSE]]
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { OPTIONS = 9 + 6 + 3 + 1, HEAD = 3 + 6 + OPTIONS, ANSWER = 2 + 6, LARGEST = 256, MOST = 4096 };
static const unsigned char options[] = "\xb8plimsoll" "\x05" "bench" "\x02" "00" "\xff";
static unsigned char requests[MOST * (HEAD + LARGEST)];
static size_t length;
static unsigned count;

static void ask(int fd, int times) {
    for (int i = 0; i < times; i++) {
        count++;
        memcpy(requests + i * length + 3, &count, 4);
    }
    size_t all = times * length;
    for (size_t gone = 0; gone < all;) {
        ssize_t written = write(fd, requests + gone, all - gone);
        if (written < 0) {
            perror("write");
            exit(1);
        }
        gone += written;
    }
}

int main(int arguments_count, char **arguments) {
    if (arguments_count < 5) {
        fprintf(stderr, "usage: coap_tcp_floor PORT CONNECTIONS SECONDS SIZE [UNDER_WAY [PAUSE]]\n");
        return 2;
    }
    size_t size = strtoul(arguments[4], NULL, 10);
    int connections = atoi(arguments[2]), under_way = arguments_count > 5 ? atoi(arguments[5]) : 1;
    if (size > LARGEST - OPTIONS || under_way > MOST) return 2;
    length = HEAD + size;
    for (int i = 0; i < MOST; i++) {
        unsigned char *request = requests + i * length;
        request[0] = 0xd6;
        request[1] = OPTIONS + size - 13;
        request[2] = 0x02;
        memcpy(request + 3 + 6, options, OPTIONS);
        memset(request + HEAD, 'x', size);
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[1])),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int epoll = epoll_create1(0), on = 1;
    for (int i = 0; i < connections; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        unsigned char csm[2];
        if (connect(fd, (struct sockaddr *)&address, sizeof address)) return 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (write(fd, "\x00\xe1", 2) != 2 || recv(fd, csm, 2, MSG_WAITALL) != 2) return 1;
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
        ask(fd, under_way);
    }
    struct timespec now, pause = {0, arguments_count > 6 ? atol(arguments[6]) * 1000 : 100000};
    clock_gettime(CLOCK_MONOTONIC, &now);
    time_t end = now.tv_sec + atoi(arguments[3]);
    unsigned long answers = 0;
    /* An answer may be cut: what is over is kept by its length alone. */
    static size_t over[65536];
    static unsigned char room[MOST * ANSWER];
    while (now.tv_sec < end) {
        struct epoll_event ready[256];
        if (under_way > 1 && pause.tv_nsec) clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        int n = epoll_wait(epoll, ready, 256, 100);
        for (int i = 0; i < n; i++) {
            int fd = ready[i].data.fd;
            ssize_t came = read(fd, room, sizeof room);
            if (came <= 0) return 1;
            size_t all = over[fd] + came;
            over[fd] = all % ANSWER;
            answers += all / ANSWER;
            ask(fd, all / ANSWER);
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
    }
    printf("%lu answers\n", answers);
}
