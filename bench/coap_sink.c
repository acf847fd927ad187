/* A server over CoAP that never limits: answers every confirmable request in its acknowledgement with 2.04, and every
 * ping with a reset. It looks at no more than the header and the token.
 *
 *   coap_sink PORT
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static unsigned long requests;

static void report(int signal) {
    (void)signal;
    dprintf(2, "%lu\n", requests);
    _exit(0);
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
    for (;;) {
        unsigned char message[2048];
        struct sockaddr_in from;
        socklen_t length = sizeof from;
        ssize_t got = recvfrom(server, message, sizeof message, 0, (struct sockaddr *)&from, &length);
        if (got < 4 || message[0] >> 4 != 4) continue;
        unsigned token = message[0] & 15;
        if (token > 8 || got < 4 + (ssize_t)token) continue;
        if (message[1] == 0) {
            message[0] = 0x70;
            token = 0;
        } else {
            requests++;
            message[0] = 0x60 | token;
            message[1] = 0x44;
        }
        sendto(server, message, 4 + token, 0, (struct sockaddr *)&from, length);
    }
}
