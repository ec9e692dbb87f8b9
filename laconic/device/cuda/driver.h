#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace laconic::cuda {

// The names of cuda.h that are used: handles are opaque, results are 0 when all is well.
using Context = struct CUctx_st*;
using Module = struct CUmod_st*;
using Function = struct CUfunc_st*;
using Stream = struct CUstream_st*;  // torch: torch.cuda.current_stream().cuda_stream
using Event = struct CUevent_st*;
using Address = unsigned long long;

inline constexpr int kMajor = 75, kMinor = 76;  // attributes: compute capability
inline constexpr unsigned kNoTiming = 2;        // of events
inline constexpr unsigned kNonBlocking = 1;     // of streams: they do not wait for stream 0
inline constexpr int kNotReady = 600;           // of event_query

// The driver's functions that are used, all asynchronous ones on a stream. One of libcuda.so.1, or a
// stand-in.
struct Driver {
  int (*init)(unsigned);
  int (*version)(int*);
  int (*device_count)(int*);
  int (*device_get)(int* device, int ordinal);
  int (*device_name)(char* name, int length, int device);
  int (*attribute)(int* value, int attribute, int device);
  int (*retain)(Context*, int device);
  int (*push)(Context);
  int (*pop)(Context*);
  int (*load)(Module*, const void* image);
  int (*find)(Function*, Module, const char* name);
  int (*launch)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                unsigned shared, Stream, void** parameters, void** extra);
  int (*allocate)(Address*, std::size_t bytes);
  int (*free)(Address);
  int (*allocate_pinned)(void**, std::size_t bytes, unsigned flags);
  int (*free_pinned)(void*);
  int (*to_host)(void*, Address, std::size_t bytes, Stream);
  int (*to_device)(Address, const void*, std::size_t bytes, Stream);
  int (*on_device)(Address to, Address from, std::size_t bytes, Stream);
  int (*set_bytes)(Address, unsigned char value, std::size_t count, Stream);
  int (*set_words)(Address, unsigned value, std::size_t count, Stream);
  int (*stream_create)(Stream*, unsigned flags);
  int (*stream_destroy)(Stream);
  int (*stream_wait)(Stream, Event, unsigned flags);
  int (*event_create)(Event*, unsigned flags);
  int (*event_destroy)(Event);
  int (*event_record)(Event, Stream);
  int (*event_wait)(Event);
  int (*event_query)(Event);
  int (*error_name)(int result, const char** name);

  // Throws Error(kUnavailable) with the driver's name of the error, what was tried, and what to do.
  void check(int result, const char* what) const;
};

// Opens libcuda (`library` null: libcuda.so.1). Throws Error(kUnavailable) with what to install.
Driver open_driver(const char* library = nullptr);

// The stand-in: device memory that only its operations can reach, streams that advance in an order
// that follows from `seed` and that their events allow, kernels on fibers. One per process.
Driver emulated_driver();
void seed_emulated_driver(unsigned seed);
// For tests: the next allocation of this many bytes or more fails, 0: none; from now on every call
// fails as if the GPU had fallen off the bus.
void limit_emulated_memory(std::size_t bytes);
void lose_emulated_device(bool lost);
// Called for every wait, of a stream or of the host; false: the wait is left out. Null: none is.
void filter_emulated_waits(bool (*keeps)(bool of_stream));

}  // namespace laconic::cuda
