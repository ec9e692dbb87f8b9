// An NVRTC of long ago, for the error that it gives.
extern "C" {
int nvrtcVersion(int* major, int* minor) {
  *major = 11;
  *minor = 2;
  return 0;
}
int nvrtcCreateProgram() { return 1; }
int nvrtcCompileProgram() { return 1; }
int nvrtcGetCUBINSize() { return 1; }
int nvrtcGetCUBIN() { return 1; }
int nvrtcGetProgramLogSize() { return 1; }
int nvrtcGetProgramLog() { return 1; }
int nvrtcDestroyProgram() { return 1; }
}
