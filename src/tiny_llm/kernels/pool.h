// --- given
// Threads that wait for work: a product takes 50 microseconds, and starting a thread takes 20.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#if defined(WATCHED)  // by the checks: one chunk after another, and what each of them touches is compared
/// As below. There is nothing behind the last one: a wrong index is seen, at the line that has it.
using OwnLines = std::vector<float>;

class Pool {
 public:
  static int threads() { return 2; }

  template <class Body>
  void run(int count, int chunk, Body&& body) {
    auto one = [&](int64_t i) { body(int(i) * chunk, std::min(count, int(i + 1) * chunk)); };
    using One = decltype(one);
    watch_chunks((count + chunk - 1) / chunk, [](void* o, int64_t i) { (*static_cast<One*>(o))(i); }, &one);
  }
};

inline Pool& pool(int = 0) {
  static Pool one;
  return one;
}

#else
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

/// Floats, zeros at first, that a thread writes again and again: no cache line of theirs has anything else in it. If it
/// had something that another thread needs, the line would travel between their cores each time.
class OwnLines {
 public:
  explicit OwnLines(int64_t floats) : lines(floats / Line::FLOATS + 1) {}
  float* data() { return lines[0].numbers; }
  float& operator[](int64_t i) { return data()[i]; }

 private:
  struct alignas(128) Line {  // two of 64 bytes, which processors like to fetch together; Apple's are of 128
    static constexpr int FLOATS = 32;
    float numbers[FLOATS];
  };
  std::vector<Line> lines;
};

#if defined(__x86_64__)
inline void pause_briefly() { __builtin_ia32_pause(); }
#elif defined(__aarch64__)
inline void pause_briefly() { asm volatile("yield"); }
#else
inline void pause_briefly() {}
#endif

/// Runs a loop on all cores: each has a share of its chunks, and who is done takes what the others have left, so that a
/// slow or busy core does less.
class Pool {
 public:
  explicit Pool(int threads) : shares(threads) {
    for (int i = 1; i < threads; ++i) workers.emplace_back([this, i] { wait_for_work(i); });  // the caller is one, too
  }

  ~Pool() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      stopping = true;
      round.fetch_add(1);
    }
    wake.notify_all();
    for (std::thread& worker : workers) worker.join();
  }

  int threads() const { return int(workers.size()) + 1; }

  /// body(first, last) for chunks of 0 .. count - 1, each of `chunk` numbers or fewer, in any order and on any thread.
  template <class Body>
  void run(int count, int chunk, Body&& body) {
    if (workers.empty() || count <= chunk) {
      if (count > 0) body(0, count);
      return;
    }
    std::lock_guard<std::mutex> one_at_a_time(callers);
    using Plain = std::remove_reference_t<Body>;
    Job job{[](void* b, int first, int last) { (*static_cast<Plain*>(b))(first, last); }, (void*)&body, count, chunk};
    const int64_t chunks = (count + chunk - 1) / chunk;
    for (int i = 0; i < threads(); ++i) {
      shares[i].next.store(int(chunks * i / threads()), std::memory_order_relaxed);
      shares[i].end = int(chunks * (i + 1) / threads());
    }
    current.store(&job);
    round.fetch_add(1);
    if (sleeping.load() > 0) {
      { std::lock_guard<std::mutex> lock(mutex); }  // a worker between its last look and its sleep would not hear
      wake.notify_all();
    }
    work_on(job, 0);
    current.store(nullptr);
    // Others may still be busy with their last chunk, or about to look at the job, which ends with this call.
    wait_until([&] { return inside.load() == 0; });
    if (job.thrown) std::rethrow_exception(job.thrown);
  }

 private:
  struct Job {
    void (*call)(void*, int, int);
    void* body;
    int count, chunk;
    std::atomic<bool> failed{false};
    std::exception_ptr thrown;
  };

  /// The chunks next .. end - 1, which are a thread's to begin with.
  struct alignas(128) Share {  // written by all: not in a line with anything else
    std::atomic<int> next{0};
    int end = 0;
  };

  /// A thread's own share comes first. It is the same each time: what it reads may still be in its core's cache.
  void work_on(Job& job, int me) {
    for (int i = 0; i < threads(); ++i) {
      Share& share = shares[(me + i) % threads()];
      for (int at; (at = share.next.fetch_add(1, std::memory_order_relaxed)) < share.end;) {
        const int first = at * job.chunk, last = std::min(job.count, first + job.chunk);
        try {
          job.call(job.body, first, last);
        } catch (...) {  // what leaves a thread would end the process: `run` throws it instead
          if (!job.failed.exchange(true)) job.thrown = std::current_exception();
        }
      }
    }
  }

  void wait_for_work(int me) {
    for (uint64_t seen = 0;;) {
      // The next product comes at once or not for long: look for 100 microseconds, then sleep.
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(100);
      while (round.load() == seen && std::chrono::steady_clock::now() < until)
        for (int i = 0; i < 32 && round.load() == seen; ++i) pause_briefly();
      if (round.load() == seen) {
        std::unique_lock<std::mutex> lock(mutex);
        ++sleeping;
        wake.wait(lock, [&] { return round.load() != seen; });
        --sleeping;
      }
      seen = round.load();
      if (stopping) return;
      ++inside;
      if (Job* job = current.load()) work_on(*job, me);
      --inside;
    }
  }

  /// Looks again and again, and after a while lets others have this core: they may need it to finish.
  template <class Done>
  static void wait_until(Done done) {
    for (int looks = 0; !done(); ++looks) looks < 2000 ? pause_briefly() : std::this_thread::yield();
  }

  std::vector<Share> shares;
  std::vector<std::thread> workers;
  std::mutex mutex, callers;
  std::condition_variable wake;
  std::atomic<uint64_t> round{0};
  std::atomic<Job*> current{nullptr};
  std::atomic<int> inside{0}, sleeping{0};
  std::atomic<bool> stopping{false};
};

/// The pool of this library, with a thread for each core. It is never taken down: at exit its threads just end.
inline Pool& pool(int threads = 0) {
  static Pool* one = new Pool(int(std::thread::hardware_concurrency()));
  if (threads > 0 && threads != one->threads()) {
    delete one;
    one = new Pool(threads);
  }
  return *one;
}

#endif
