// An SDR SDRAM behind LiteDRAM's controller, as hw/spec/sdram.py words it, in front of a Verilated core.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "memory.hpp"

// What hw/spec/sdram.py's `sdram_timing` returns, in its order.
struct SdramTiming {
    int64_t words, guarded, word_shift, column_bits, bank_bits;
    int64_t precharge, activate, row_cycle, row_active, row_to_row, column_to_column;
    int64_t write_to_precharge, write_to_read, read_to_write;
    int64_t refresh_cycles, refresh_interval, first_refresh;
    int64_t read_stages, write_stages;
    int64_t command_depth, read_depth, write_depth, read_time, write_time;
};

// Bank machine, refresher and multiplexer: from words that are asked for to the strobes of their data.
class SdramController {
  public:
    explicit SdramController(const SdramTiming& timing) : t_(timing), banks_(size_t{1} << timing.bank_bits) {}

    // The strobes of a word that is written, or was read, in this cycle.
    bool writes() const { return write_pipe_ >> (t_.write_stages - 1) & 1; }
    bool reads() const { return read_pipe_ >> (t_.read_stages - 1) & 1; }

    // Whether the controller takes the command of a word in this cycle.
    bool takes(uint64_t word) const {
        const bool locked = !ahead_.empty() || valid_;
        return !(locked && bank_of(word) != bank_) && ahead_.size() < static_cast<uint64_t>(t_.command_depth);
    }

    // End a cycle in which the controller took the command of `word`, if `taken`.
    void step(bool taken, uint64_t word, bool write) {
        const bool refreshed = refresher_ == RUNNING && now_ == refreshed_at_;
        const bool asks = refresher_ != QUIET && !refreshed;
        const Command command = ask(asks);
        refresh(refreshed);
        const bool accepted = choose(command);
        turn(command, refreshed);
        advance_bank(command, accepted, asks);
        buffer(accepted && (command.reads || command.writes));
        if (taken) {
            ahead_.push_back({static_cast<int64_t>(word >> (t_.column_bits + t_.bank_bits)), write});
            bank_ = bank_of(word);
        }
        ++now_;
    }

  private:
    enum BankState { REGULAR, PRECHARGE, AUTO_PRECHARGE, ACTIVATE, REFRESHING, WAIT_PRECHARGE, WAIT_ACTIVATE };
    enum Direction { READS, WRITES, REFRESHES, TO_READ, TO_WRITE };
    enum Refresher { QUIET, ASKING, RUNNING };
    static constexpr int64_t LONG_AGO = -(int64_t{1} << 60);

    struct Bank {
        bool open = false;
        int64_t row = 0, precharge_from = 0, active_until = 0, activate_from = 0;
    };
    struct Access {
        int64_t row = 0;
        bool write = false;
    };
    struct Command {
        bool valid = false, reads = false, writes = false, activates = false, precharges = false;
    };

    size_t bank_of(uint64_t word) const { return word >> t_.column_bits & (banks_.size() - 1); }
    bool closes(const Bank& bank) const { return now_ >= bank.precharge_from && now_ >= bank.active_until; }

    Command ask(bool asks_refresh) const {
        const Bank& bank = banks_[bank_];
        switch (state_) {
            case REGULAR: {
                const bool valid = !asks_refresh && valid_ && bank.open && bank.row == access_.row;
                const bool follows = !ahead_.empty() && ahead_.front().row != access_.row;
                return {valid, valid && !access_.write, valid && access_.write, false, valid && follows};
            }
            case PRECHARGE: return {closes(bank)};
            case ACTIVATE: return {now_ >= bank.activate_from, false, false, true};
            default: return {};
        }
    }

    void refresh(bool refreshed) {
        const Refresher state = refresher_;
        if (state == ASKING && direction_ == REFRESHES)
            refresher_ = RUNNING, refreshed_at_ = now_ + t_.refresh_cycles;
        else if (refreshed)
            refresher_ = QUIET;
        if (now_ != next_refresh() + 1) return;
        ++refreshes_;
        if (state == QUIET) refresher_ = ASKING;
    }
    int64_t next_refresh() const { return t_.first_refresh + refreshes_ * t_.refresh_interval; }

    bool choose(const Command& command) {
        const bool row = row_from_ <= now_;
        const bool fits = command.reads == (direction_ == READS) && command.writes == (direction_ == WRITES);
        const bool other = !command.reads && !command.writes && (!command.activates || row);
        const bool valid = command.valid && (other || fits), chosen = valid && chosen_ == bank_;
        const bool open = (direction_ == READS || direction_ == WRITES) && column_from_ <= now_;
        const bool ready = open && (!(chosen && command.activates) || row);
        if (valid && (ready || !chosen)) chosen_ = bank_;
        const bool accepted = chosen && ready;
        write_pipe_ = write_pipe_ << 1 | (accepted && command.writes);
        read_pipe_ = read_pipe_ << 1 | (accepted && command.reads);
        if (!accepted) return false;
        if (command.activates) row_from_ = now_ + t_.row_to_row;
        if (command.reads || command.writes) column_from_ = now_ + t_.column_to_column;
        if (command.writes) read_from_ = now_ + t_.write_to_read;
        return true;
    }

    void turn(const Command& command, bool refreshed) {
        Direction next = direction_;
        switch (direction_) {
            case READS:
                if (command.writes && (!command.reads || now_ - turned_ >= t_.read_time - 1))
                    next = t_.read_to_write ? TO_WRITE : WRITES;
                if (banks_rest()) next = REFRESHES;
                break;
            case WRITES:
                if (command.reads && (!command.writes || now_ - turned_ >= t_.write_time - 1)) next = TO_READ;
                if (banks_rest()) next = REFRESHES;
                break;
            case REFRESHES:
                if (refreshed) next = READS;
                break;
            case TO_READ:
                if (now_ >= read_from_) next = READS;
                break;
            case TO_WRITE:
                if (now_ - turned_ >= t_.read_to_write - 1) next = WRITES;
                break;
        }
        if (next != direction_) direction_ = next, turned_ = now_ + 1;
    }

    bool banks_rest() const {
        if (state_ != REFRESHING) return false;
        for (const Bank& bank : banks_)
            if (now_ < bank.precharge_from) return false;
        return true;
    }

    void advance_bank(const Command& command, bool accepted, bool asks_refresh) {
        Bank& bank = banks_[bank_];
        BankState next = state_;
        switch (state_) {
            case REGULAR:
                if (asks_refresh) next = REFRESHING;
                else if (valid_ && !command.valid) next = bank.open ? PRECHARGE : ACTIVATE;
                else if (accepted && command.precharges) next = AUTO_PRECHARGE;
                break;
            case REFRESHING:
                for (Bank& each : banks_) each.open = false;
                if (!asks_refresh) next = REGULAR;
                break;
            case PRECHARGE:
            case AUTO_PRECHARGE:
                bank.open = false;
                if (accepted || (state_ == AUTO_PRECHARGE && closes(bank)))
                    next = t_.precharge > 1 ? WAIT_PRECHARGE : ACTIVATE, until_ = now_ + t_.precharge - 1;
                break;
            case ACTIVATE:
                if (command.valid) bank.open = true, bank.row = access_.row;
                if (accepted) {
                    next = t_.activate > 1 ? WAIT_ACTIVATE : REGULAR, until_ = now_ + t_.activate - 1;
                    bank.activate_from = now_ + t_.row_cycle, bank.active_until = now_ + t_.row_active;
                }
                break;
            default:
                if (now_ >= until_) next = state_ == WAIT_PRECHARGE ? ACTIVATE : REGULAR;
        }
        if (accepted && command.writes) bank.precharge_from = now_ + t_.write_to_precharge;
        state_ = next;
    }

    void buffer(bool consumed) {
        const bool moves = !ahead_.empty() && (consumed || !valid_);
        if (consumed) valid_ = false;
        if (moves) valid_ = true, access_ = ahead_.front(), ahead_.pop_front();
    }

    SdramTiming t_;
    std::vector<Bank> banks_;
    std::deque<Access> ahead_;
    Access access_;
    bool valid_ = false;
    size_t bank_ = 0, chosen_ = 0;
    BankState state_ = REGULAR;
    Direction direction_ = READS;
    Refresher refresher_ = QUIET;
    int64_t now_ = 0, until_ = 0, turned_ = LONG_AGO, row_from_ = 0, column_from_ = 0, read_from_ = 0;
    int64_t refreshes_ = 0, refreshed_at_ = 0;
    uint64_t write_pipe_ = 0, read_pipe_ = 0;
};

// Bridge, AXI port and converter in front of the controller; the interface is that of ReferenceMemory. Data are
// read when the core takes a beat, and written when the beat leaves the write buffer.
template <unsigned BusBytes, unsigned BurstBytes>
class SdramMemory {
  public:
    explicit SdramMemory(const SdramTiming& timing) : t_(timing), s_(timing) {}

    void attach(uint8_t* bytes, uint64_t size) { image_.attach(bytes, size); }
    uint64_t last_transfer() const { return last_transfer_; }
    uint32_t protocol() const { return protocol_; }

    void clear() {
        restart();
        protocol_ = 0;
    }

    // Forget everything in flight; the next cycle is the first of a run.
    void restart() { s_ = State(t_); }

    // Set the core's inputs for `cycle`.
    template <class Top>
    void drive(Top& top, uint64_t) {
        const Port port = ask();
        const bool room = s_.requests.size() < WRITE_REQUESTS && (!t_.guarded || s_.guarded.size() < WRITE_REQUESTS);
        top.request_ready = top.request_write ? room : !s_.read.beats || (port.fires && port.ends && s_.grants_read);
        top.write_ready = s_.write_level < t_.write_depth && (!t_.guarded || !s_.guarded.empty());
        top.read_valid = s_.bridge_beats > 0;
        if (top.read_valid) inside_ = image_.template read<BusBytes>(s_.reads.front().address, &top.read_data);
        top.write_done = s_.answers;
        top.memory_error = s_.error;
    }

    // Take what the core and memory transfer in `cycle`, once all signals have settled.
    template <class Top>
    void step(const Top& top, uint64_t cycle) {
        const bool gave = top.read_valid && top.read_ready, took = top.write_valid && top.write_ready;
        const bool accepted = top.request_valid && top.request_ready;
        const Port port = ask();
        const bool writes = s_.controller.writes(), reads = s_.controller.reads();
        s_.error = gave && !inside_;
        if (gave) pass(s_.reads);
        if (took) take_beat(top);
        command();
        const bool leaves = write_data(writes, took), given = read_data(reads, gave);
        s_.answers = leaves && store_beat();
        divide(port, leaves, given);
        if (s_.waiting && !top.request_valid) protocol_ |= REQUEST_WITHDRAWN;
        s_.waiting = top.request_valid && !accepted;
        if (accepted) accept(top);
        if (accepted || gave || took) last_transfer_ = cycle;
    }

  private:
    static constexpr size_t WRITE_REQUESTS = 4;
    static constexpr int64_t READ_BEATS = 2;

    struct Burst {
        uint64_t address = 0;
        int64_t beats = 0;
    };
    struct Beat {
        uint8_t data[BusBytes];
        uint64_t strobe;
        bool last;
    };
    struct Port {
        bool asks_write, asks_read, asks, fires, ends;
    };
    struct State {
        explicit State(const SdramTiming& timing) : controller(timing) {}
        SdramController controller;
        std::deque<Burst> requests, guarded, writes, reads;  // in the bridge; past the guard; to be written, read
        std::deque<Beat> beats;                              // in the write buffer
        Burst read, write;                                   // that are divided
        bool grants_read = false, answers = false, error = false, waiting = false;
        int64_t read_reserved = 0, write_reserved = 0;
        int64_t converting = 0;                              // words to be commanded of the beat in the converter
        uint64_t word = 0;                                   // address of the next
        bool word_writes = false;
        bool beat_waits = false;                             // the converter holds the beat behind
        uint64_t next_word = 0;
        bool next_writes = false;
        int64_t words_written = 0, words_read = 0;
        bool collected = false, write_ready = false, read_ready = false;
        int64_t write_level = 0, read_level = 0, bridge_beats = 0;
    };

    Port ask() const {
        const bool write = s_.write.beats && s_.write_level + s_.write_ready > s_.write_reserved;
        const bool read = s_.read.beats && s_.read_reserved < t_.read_depth;
        const bool asks = s_.grants_read ? read : write;
        return {write, read, asks, asks && !s_.beat_waits, (s_.grants_read ? s_.read : s_.write).beats == 1};
    }

    static bool pass(std::deque<Burst>& bursts) {
        bursts.front().address += BusBytes;
        if (--bursts.front().beats) return false;
        bursts.pop_front();
        return true;
    }

    template <class Top>
    void take_beat(const Top& top) {
        Beat beat{{}, top.write_strobe, static_cast<bool>(top.write_last)};
        std::memcpy(beat.data, &top.write_data, BusBytes);
        s_.beats.push_back(beat);
        if (t_.guarded) pass(s_.guarded);
    }

    void command() {
        const bool taken = s_.converting && s_.controller.takes(s_.word);
        s_.controller.step(taken, s_.word, s_.word_writes);
        if (taken) ++s_.word, --s_.converting;
        if (s_.beat_waits && !s_.converting) s_.beat_waits = false, convert(s_.next_word, s_.next_writes);
    }

    void convert(uint64_t word, bool writes) { s_.converting = t_.words, s_.word = word, s_.word_writes = writes; }

    // Take a beat into the converter, or behind the beat that is in it.
    void take_command(uint64_t word, bool writes) {
        if (s_.converting)
            s_.beat_waits = true, s_.next_word = word, s_.next_writes = writes;
        else
            convert(word, writes);
    }

    // Return whether a beat leaves the write buffer with its last word.
    bool write_data(bool strobe, bool took) {
        const bool leaves = strobe && ++s_.words_written == t_.words;
        if (leaves) s_.words_written = 0;
        const bool moves = s_.write_level > 0 && (leaves || !s_.write_ready);
        s_.write_ready = moves || (s_.write_ready && !leaves);
        s_.write_level += took - moves;
        return leaves;
    }

    // Return whether a beat leaves the read buffer.
    bool read_data(bool strobe, bool gave) {
        const bool given = s_.read_ready && s_.bridge_beats < READ_BEATS;
        const bool moves = s_.read_level > 0 && (given || !s_.read_ready);
        s_.read_ready = moves || (s_.read_ready && !given);
        s_.read_level += s_.collected - moves;
        s_.bridge_beats += given - gave;
        s_.collected = strobe && ++s_.words_read == t_.words;
        if (s_.collected) s_.words_read = 0;
        return given;
    }

    // Write the beat that leaves the buffer; return whether it was its burst's last.
    bool store_beat() {
        const Beat beat = s_.beats.front();
        s_.beats.pop_front();
        s_.error |= !image_.template write<BusBytes>(s_.writes.front().address, beat.data, beat.strobe);
        const bool last = pass(s_.writes);
        if (last != beat.last) protocol_ |= LAST_MISPLACED;
        return last;
    }

    void divide(const Port& port, bool leaves, bool given) {
        const bool fires_read = port.fires && s_.grants_read, fires_write = port.fires && !s_.grants_read;
        s_.write_reserved += fires_write - leaves;
        s_.read_reserved += fires_read - given;
        if (port.fires) {
            Burst& burst = fires_read ? s_.read : s_.write;
            take_command(burst.address >> t_.word_shift, fires_write);
            burst.address += BusBytes, --burst.beats;
        }
        const bool frees = !port.asks || (port.fires && port.ends);
        if (frees && (s_.grants_read ? port.asks_write : port.asks_read)) s_.grants_read = !s_.grants_read;
        if (!s_.requests.empty() && !s_.write.beats) s_.write = s_.requests.front(), s_.requests.pop_front();
    }

    template <class Top>
    void accept(const Top& top) {
        const uint64_t address = top.request_address, beats = top.request_beats;
        if (address % BusBytes) protocol_ |= ADDRESS_BETWEEN_BEATS;
        if (beats == 0) protocol_ |= BURST_LENGTH;
        if (address % BurstBytes + beats * BusBytes > BurstBytes) protocol_ |= BURST_CROSSES_BOUNDARY;
        const Burst burst{address, std::max<int64_t>(beats, 1)};
        if (!top.request_write) {
            s_.read = burst;
            s_.reads.push_back(burst);
            return;
        }
        for (auto* queue : {&s_.requests, &s_.writes}) queue->push_back(burst);
        if (t_.guarded) s_.guarded.push_back(burst);
    }

    SdramTiming t_;
    State s_;
    Image image_;
    uint64_t last_transfer_ = 0;
    uint32_t protocol_ = 0;
    bool inside_ = true;
};
