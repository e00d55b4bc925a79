#include "platform/system.h"

#include <cerrno>
#include <clocale>
#include <system_error>
#include <utility>
#include <vector>

#include "platform/source.h"

#if defined(_WIN32)
#include <filesystem>
#include <fstream>
#include <iterator>
#else
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#endif
#if defined(__APPLE__)
#include <xlocale.h>
#endif

namespace boxscore {
namespace {

class OwnedSource : public MemorySource {
public:
    explicit OwnedSource(std::shared_ptr<std::vector<char>> bytes)
        : MemorySource(bytes->data(), bytes->size()), bytes_(std::move(bytes)) {}

private:
    std::shared_ptr<std::vector<char>> bytes_;
};

[[noreturn]] void fail(int error) { throw std::system_error(error, std::generic_category()); }

#if !defined(_WIN32)

class Descriptor {
public:
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    ~Descriptor() {
        if (number_ >= 0) ::close(number_);
    }
    int number() const { return number_; }

private:
    int number_;
};

// Reads blocks instead of mapping the file: a mapped file that is truncated while it is read crashes the process.
class FileSource : public Source {
public:
    FileSource(Descriptor file, size_t size) : file_(std::move(file)), size_(size) {}
    size_t size() const override { return size_; }
    size_t read(size_t offset, char* to, size_t size) const override {
        size_t count = 0;
        while (count < size && offset + count < size_) {
            const size_t wanted = std::min(size - count, size_ - offset - count);
            const ssize_t got = ::pread(file_.number(), to + count, wanted, static_cast<off_t>(offset + count));
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) fail(errno);
            if (got == 0) break;
            count += static_cast<size_t>(got);
        }
        return count;
    }

private:
    Descriptor file_;
    size_t size_;
};

#endif

}  // namespace

double parse_double(const char* begin, const char* end) {
    const std::string text(begin, end);
#if defined(_WIN32)
    static const _locale_t c_locale = _create_locale(LC_ALL, "C");
    return _strtod_l(text.c_str(), nullptr, c_locale);
#else
    static const locale_t c_locale = newlocale(LC_ALL_MASK, "C", nullptr);
    return strtod_l(text.c_str(), nullptr, c_locale);
#endif
}

#if defined(_WIN32)

std::unique_ptr<Source> open_source(const std::string& path) {
    std::ifstream file(std::filesystem::u8path(path), std::ios::binary);
    if (!file) fail(errno != 0 ? errno : ENOENT);
    auto bytes = std::make_shared<std::vector<char>>(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    return std::make_unique<OwnedSource>(std::move(bytes));
}

#else

std::unique_ptr<Source> open_source(const std::string& path) {
    if (path.find('\0') != std::string::npos) fail(EINVAL);  // the system would cut the path there
    Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.number() < 0) fail(errno);
    struct stat status;
    if (::fstat(file.number(), &status) != 0) fail(errno);
    if (S_ISDIR(status.st_mode)) fail(EISDIR);
    // Files that are generated while they are read, as in /proc, report a size of 0.
    if (S_ISREG(status.st_mode) && status.st_size > 0) {
        return std::make_unique<FileSource>(std::move(file), static_cast<size_t>(status.st_size));
    }
    constexpr size_t kBlock = size_t{1} << 18;
    auto bytes = std::make_shared<std::vector<char>>();
    for (size_t size = 0;;) {
        bytes->resize(size + kBlock);
        const ssize_t got = ::read(file.number(), bytes->data() + size, kBlock);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail(errno);
        size += static_cast<size_t>(got);
        bytes->resize(size);
        if (got == 0) return std::make_unique<OwnedSource>(std::move(bytes));
    }
}

#endif

}  // namespace boxscore
