// Mutated kernels loop for ever and follow wild pointers. Both end the launch, not the
// test process: a signal that interrupts kernel code abandons the thread. Kernel code
// holds no lock, so leaving it is safe; in any other code we only wait or give up.
#include "scheduler.h"
#include <csignal>
#include <ctime>
#include <link.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <unordered_map>

namespace emu {
namespace {

struct Search {
    uintptr_t address;
    bool constant;
    Range found;
};

int visit_module(dl_phdr_info* info, size_t, void* data) {
    auto* search = static_cast<Search*>(data);
    Range whole{0, 0}, constant{0, 0};
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& segment = info->dlpi_phdr[i];
        if (segment.p_type != PT_LOAD) continue;
        const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
        const uintptr_t end = begin + segment.p_memsz;
        if (!whole.end) whole.begin = constant.begin = begin;
        whole.end = end;
        if (!(segment.p_flags & PF_W)) constant.end = end;  // these come first
    }
    if (!whole.contains(search->address)) return 0;
    search->found = search->constant ? constant : whole;
    return 1;
}

#if !defined(__SANITIZE_ADDRESS__)
constexpr int FAULTS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
struct sigaction before[4];
#endif

Range kernel_code;
timer_t timer;
bool timing;

uintptr_t interrupted_at(void* context) {
    const auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
    return static_cast<uintptr_t>(machine.gregs[REG_RIP]);
#elif defined(__aarch64__)
    return machine.pc;
#else
    (void)machine;
    return 0;
#endif
}

void on_signal(int number, siginfo_t* info, void* context) {
    const uintptr_t pc = interrupted_at(context);
    const void* at = reinterpret_cast<const void*>(pc + 1);  // as a return address
    const bool in_kernel = current && kernel_code.contains(pc);
    if (number == SIGRTMAX) {  // the timer comes again until it finds kernel code
        if (in_kernel) emu_fail("timeout", "the kernel runs too long, at <pc %p>", at);
        return;
    }
    if (in_kernel && number == SIGFPE)
        emu_fail("fault", "division by zero at <pc %p>", at);
    if (in_kernel)
        emu_fail("fault", "illegal access of %p at <pc %p>", info->si_addr, at);
    signal(number, SIG_DFL);  // a bug of our own: crash where it happened
}

}  // namespace

Range module_range(const void* code, bool constant) {
    // asked for at every launch; loaded files stay where they are
    static std::unordered_map<const void*, Range> known[2];
    auto [place, fresh] = known[constant].try_emplace(code);
    if (fresh) {
        Search search{reinterpret_cast<uintptr_t>(code), constant, {0, 0}};
        dl_iterate_phdr(visit_module, &search);
        place->second = search.found;
    }
    return place->second;
}

}  // namespace emu

emu::Word emu_module_base(const void* code) {
    return emu::module_range(code, false).begin;
}

namespace emu {

void watch_begin(const void* code, double timeout) {
    kernel_code = module_range(code, false);
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART;  // we may never return
#if !defined(__SANITIZE_ADDRESS__)
    for (int i = 0; i < 4; ++i) sigaction(FAULTS[i], &action, &before[i]);
#endif
    timing = timeout > 0;
    if (!timing) return;
    sigaction(SIGRTMAX, &action, nullptr);
    sigevent event = {};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGRTMAX;
    event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
    timing = timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) == 0;
    if (!timing) return;
    itimerspec when = {};
    when.it_value.tv_sec = static_cast<time_t>(timeout);
    when.it_value.tv_nsec =
        static_cast<long>((timeout - static_cast<double>(when.it_value.tv_sec)) * 1e9);
    when.it_interval.tv_nsec = 5'000'000;
    timer_settime(timer, 0, &when, nullptr);
}

void watch_end() {
    if (timing) timer_delete(timer);
#if !defined(__SANITIZE_ADDRESS__)
    for (int i = 0; i < 4; ++i) sigaction(FAULTS[i], &before[i], nullptr);
#endif
}

}  // namespace emu
