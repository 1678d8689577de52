// A simulated board: the clock of a Verilated system on chip, and its serial port as a TCP port of this machine.
// It prints "port N" and then serves one client after the other until it is killed.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "Vtop.h"
#include "verilated.h"

namespace {

constexpr int CYCLES_BETWEEN_LOOKS = 500;          // at the socket
constexpr uint64_t CYCLES_UNTIL_SLEEP = 4'000'000; // after the last byte: a client that waits for a run asks again
constexpr size_t ROOM = 1 << 16;                   // bytes on their way, in either direction
constexpr std::chrono::milliseconds SILENCE{100};  // of the client, which counts as SILENT_CYCLES at least

using Clock = std::chrono::steady_clock;

// Bytes in order, of which the first have been taken.
class Bytes {
  public:
    size_t size() const { return bytes_.size() - taken_; }
    const uint8_t* data() const { return bytes_.data() + taken_; }
    void add(const uint8_t* data, size_t count) { bytes_.insert(bytes_.end(), data, data + count); }
    void add(uint8_t byte) { bytes_.push_back(byte); }

    void take(size_t count) {
        taken_ += count;
        if (taken_ != bytes_.size()) return;
        bytes_.clear();
        taken_ = 0;
    }

    void clear() { take(size()); }

  private:
    std::vector<uint8_t> bytes_;
    size_t taken_ = 0;
};

[[noreturn]] void fail(const char* what) {
    std::perror(what);
    std::exit(1);
}

// The port, and at most one client.
class Wire {
  public:
    Wire() {
        listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        if (listener_ < 0 || bind(listener_, reinterpret_cast<sockaddr*>(&address), size) || listen(listener_, 4) ||
            getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size))
            fail("no TCP port");
        std::printf("port %d\n", ntohs(address.sin_port));
        std::fflush(stdout);
    }

    // Look for a client and for bytes; wait without end if `sleeps`. Return what has arrived, at most if `accepts`.
    Bytes look(bool sleeps, bool accepts) {
        Bytes fresh;
        pollfd sockets[2] = {{listener_, POLLIN, 0}, {client_, short(accepts ? POLLIN : 0), 0}};
        if (poll(sockets, client_ < 0 ? 1 : 2, sleeps ? -1 : 0) <= 0) return fresh;
        if (sockets[0].revents & POLLIN) accept_client();
        else if (client_ >= 0 && sockets[1].revents) receive(fresh);
        return fresh;
    }

    // Whether the last bytes came after SILENCE; whether their client is new since the last call.
    bool was_silent() const { return silent_; }
    bool is_new() { return std::exchange(new_, false); }

    // Send as much as the client takes.
    void give(Bytes& sent) {
        if (client_ < 0) sent.clear();
        if (!sent.size()) return;
        const ssize_t count = send(client_, sent.data(), sent.size(), MSG_NOSIGNAL);
        if (count > 0) sent.take(size_t(count));
    }

  private:
    void accept_client() {
        const int client = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (client < 0) return;
        const int yes = 1;
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        if (client_ >= 0) close(client_);
        client_ = client;
        new_ = true;
    }

    void receive(Bytes& fresh) {
        uint8_t buffer[4096];
        const ssize_t count = read(client_, buffer, sizeof buffer);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (count <= 0) {
            close(client_);
            client_ = -1;
            return;
        }
        fresh.add(buffer, size_t(count));
        silent_ = Clock::now() - last_ >= SILENCE;
        last_ = Clock::now();
    }

    bool silent_ = false, new_ = false;
    int listener_, client_ = -1;
    Clock::time_point last_ = Clock::now();
};

// The system on chip, whose serial port takes and gives a byte a cycle.
class Board {
  public:
    void cycle() {
        top_.serial_sink_valid = received.size() != 0;
        if (received.size()) top_.serial_sink_data = *received.data();
        top_.serial_source_ready = sent.size() < ROOM;
        top_.sys_clk = 0;
        top_.eval();
        const bool taken = top_.serial_sink_valid && top_.serial_sink_ready;
        if (top_.serial_source_valid && top_.serial_source_ready) sent.add(top_.serial_source_data);
        top_.sys_clk = 1;
        top_.eval();
        if (taken) received.take(1);
    }

    Bytes received, sent;

  private:
    VerilatedContext context_;
    Vtop top_{&context_};
};

}  // namespace

int main(int count, char** words) {
    if (count != 2) return 2;
    const uint64_t silent_cycles = std::strtoull(words[1], nullptr, 10);
    Wire wire;
    auto board = std::make_unique<Board>();
    uint64_t idle = 0;  // cycles since the last byte from the client
    while (true) {
        const bool sleeps = idle >= CYCLES_UNTIL_SLEEP && !board->sent.size();
        const Bytes fresh = wire.look(sleeps, board->received.size() < ROOM);
        if (wire.is_new()) {
            board->received.clear();
            board->sent.clear();
        }
        if (fresh.size()) {
            for (; wire.was_silent() && idle < silent_cycles; ++idle) board->cycle();
            board->received.add(fresh.data(), fresh.size());
            idle = 0;
        }
        for (int cycle = 0; cycle < CYCLES_BETWEEN_LOOKS; ++cycle) board->cycle();
        idle += CYCLES_BETWEEN_LOOKS;
        wire.give(board->sent);
    }
}
