/* A server over CoAP that never limits: answers every confirmable request in its acknowledgement with 2.04, and every
 * ping with a reset. It looks at no more than the header and the token. It reads many requests with one call, and hands over
 * answers of one size to one client together (segmentation offload), so that it is faster than who is measured with it.
 *
 *   coap_sink PORT
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST = 64, LARGEST = 2048 };
static unsigned long requests;

static void report(int signal) {
    (void)signal;
    dprintf(2, "%lu\n", requests);
    _exit(0);
}

/* The length of the answer that it puts in the place of a message; zero for none. */
static size_t answer(unsigned char *message, size_t got) {
    if (got < 4 || message[0] >> 4 != 4) return 0;
    unsigned token = message[0] & 15;
    if (token > 8 || got < 4 + token) return 0;
    if (message[1] == 0) {
        message[0] = 0x70;
        return 4;
    }
    requests++;
    message[0] = 0x60 | token;
    message[1] = 0x44;
    return 4 + token;
}

static void hand_over(int server, struct iovec *answers, int count, struct sockaddr_in *to) {
    char control[CMSG_SPACE(sizeof(uint16_t))] = {0};
    uint16_t size = answers[0].iov_len;
    struct msghdr message = {.msg_name = to, .msg_namelen = sizeof *to, .msg_iov = answers, .msg_iovlen = count};
    if (count > 1) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *segment = CMSG_FIRSTHDR(&message);
        segment->cmsg_level = SOL_UDP;
        segment->cmsg_type = UDP_SEGMENT;
        segment->cmsg_len = CMSG_LEN(sizeof size);
        memcpy(CMSG_DATA(segment), &size, sizeof size);
    }
    sendmsg(server, &message, 0);
}

int main(int count, char **arguments) {
    if (count < 2) {
        fprintf(stderr, "usage: coap_sink PORT\n");
        return 2;
    }
    signal(SIGTERM, report);
    int server = socket(AF_INET, SOCK_DGRAM, 0), room = 1 << 22;
    setsockopt(server, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[1])),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(server, (struct sockaddr *)&address, sizeof address)) {
        perror("bind");
        return 1;
    }
    static unsigned char bytes[MOST][LARGEST];
    struct sockaddr_in from[MOST];
    struct iovec places[MOST], answers[MOST];
    struct mmsghdr messages[MOST];
    for (;;) {
        for (int i = 0; i < MOST; i++) {
            places[i] = (struct iovec){bytes[i], LARGEST};
            messages[i].msg_hdr = (struct msghdr){
                .msg_name = &from[i], .msg_namelen = sizeof from[i], .msg_iov = &places[i], .msg_iovlen = 1};
        }
        int came = recvmmsg(server, messages, MOST, MSG_WAITFORONE, NULL), waiting = 0, first = 0;
        for (int i = 0; i < came; i++) {
            size_t length = answer(bytes[i], messages[i].msg_len);
            if (waiting && (length != answers[0].iov_len || from[i].sin_port != from[first].sin_port)) {
                hand_over(server, answers, waiting, &from[first]);
                waiting = 0;
            }
            if (!length) continue;
            if (!waiting) first = i;
            answers[waiting++] = (struct iovec){bytes[i], length};
        }
        if (waiting) hand_over(server, answers, waiting, &from[first]);
    }
}
