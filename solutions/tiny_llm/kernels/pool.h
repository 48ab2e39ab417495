// --- given
// A thread pool: a product takes 50 microseconds, and starting a thread takes 20.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#if defined(WATCHED)  // by the checks: chunks run one after another, and the memory that each touches is compared
/// As below, without padding after the last float, so that an index out of bounds is detected at its line.
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

/// Zero-initialized floats that one thread writes repeatedly, in cache lines that hold nothing else: this avoids false
/// sharing, in which a line moves between cores at every write.
class OwnLines {
 public:
  explicit OwnLines(int64_t floats) : lines(floats / Line::FLOATS + 1) {}
  float* data() { return lines[0].numbers; }
  float& operator[](int64_t i) { return data()[i]; }

 private:
  struct alignas(128) Line {  // two lines of 64 bytes, which some processors prefetch in pairs; Apple's have 128
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

/// Runs a loop on all cores with work stealing: each thread has a share of the chunks, and an idle thread takes chunks
/// of the others, so that a slow or busy core does less.
class Pool {
 public:
  explicit Pool(int threads) : shares(threads) {
    for (int i = 1; i < threads; ++i) workers.emplace_back([this, i] { wait_for_work(i); });  // the caller is thread 0
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

  /// Calls body(first, last) for chunks of 0 .. count - 1 of at most `chunk` indices, in any order and on any thread.
  template <class Body>
  void run(int count, int chunk, Body&& body) {
    if (workers.empty() || count <= chunk) {
      for (int first = 0; first < count; first += chunk) body(first, std::min(count, first + chunk));
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
      { std::lock_guard<std::mutex> lock(mutex); }  // else a worker between its check and its wait misses the wake-up
      wake.notify_all();
    }
    work_on(job, 0);
    current.store(nullptr);
    // Others may still run their last chunk or be about to read the job, whose lifetime ends with this call.
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

  /// The chunks next .. end - 1, initially assigned to one thread.
  struct alignas(128) Share {  // written by all threads, so alone in its cache line
    std::atomic<int> next{0};
    int end = 0;
  };

  /// Own share first: it is the same in every call, so its data may still be in the core's cache.
  void work_on(Job& job, int me) {
    for (int i = 0; i < threads(); ++i) {
      Share& share = shares[(me + i) % threads()];
      for (int at; (at = share.next.fetch_add(1, std::memory_order_relaxed)) < share.end;) {
        const int first = at * job.chunk, last = std::min(job.count, first + job.chunk);
        try {
          job.call(job.body, first, last);
        } catch (...) {  // an exception that leaves a thread ends the process: `run` rethrows it instead
          if (!job.failed.exchange(true)) job.thrown = std::current_exception();
        }
      }
    }
  }

  void wait_for_work(int me) {
    for (uint64_t seen = 0;;) {
      // The next product comes immediately or after a long pause: spin for 100 microseconds, then sleep.
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

  /// Spins, and after a while yields the core: the threads waited for may need it.
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

/// Returns the pool of this library, with a thread per core. It is never destroyed: at exit its threads just end.
inline Pool& pool(int threads = 0) {
  static Pool* one = new Pool(int(std::thread::hardware_concurrency()));
  if (threads > 0 && threads != one->threads()) {
    delete one;
    one = new Pool(threads);
  }
  return *one;
}

#endif
