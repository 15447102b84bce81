// Support vector machine with a Gaussian kernel: one thread classifies one vector of features.
// The vectors that support it come from global memory (naive) or from constant memory; the features of a thread
// lie together (naive, constant) or one behind the other for all threads (coalesced).
constexpr int FEATURES = 48, SUPPORTS = 17;
constexpr float GAMMA = 0.125f;

struct Model {
  float weight[SUPPORTS];
  float support[SUPPORTS][FEATURES];
};

// Numbers that look random, in [0, 1).
__device__ constexpr Model made() {
  Model model = {};
  unsigned state = 1;
  for (int s = 0; s < SUPPORTS; ++s) {
    state = 1103515245u * state + 12345u;
    model.weight[s] = (state >> 16) / 65536.0f;
    for (int f = 0; f < FEATURES; ++f) {
      state = 1103515245u * state + 12345u;
      model.support[s][f] = (state >> 16) / 65536.0f;
    }
  }
  return model;
}

__constant__ Model model = made();

extern "C" __global__ void svm_naive(int n, float bias, const float *features, const float *weight,
                                     const float *support, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  float sum = bias;
  for (int s = 0; s < SUPPORTS; ++s) {
    float distance = 0;
#pragma unroll 4
    for (int f = 0; f < FEATURES; ++f) {
      float d = features[i * FEATURES + f] - support[s * FEATURES + f];
      distance += d * d;
    }
    sum += weight[s] * expf(-GAMMA * distance);
  }
  out[i] = sum;
}

extern "C" __global__ void svm_constant(int n, float bias, const float *features, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  float sum = bias;
  for (int s = 0; s < SUPPORTS; ++s) {
    float distance = 0;
#pragma unroll 4
    for (int f = 0; f < FEATURES; ++f) {
      float d = features[i * FEATURES + f] - model.support[s][f];
      distance += d * d;
    }
    sum += model.weight[s] * expf(-GAMMA * distance);
  }
  out[i] = sum;
}

extern "C" __global__ void svm_coalesced(int n, float bias, const float *features, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  float sum = bias;
  for (int s = 0; s < SUPPORTS; ++s) {
    float distance = 0;
#pragma unroll 4
    for (int f = 0; f < FEATURES; ++f) {
      float d = features[f * n + i] - model.support[s][f];
      distance += d * d;
    }
    sum += model.weight[s] * expf(-GAMMA * distance);
  }
  out[i] = sum;
}
