// Kepler's equation in double precision by Newton's method until it converges, then the place on the orbit.
extern "C" __global__ void kepler(int bodies, const double *__restrict__ anomaly, const double *__restrict__ eccentricity,
                                  double *__restrict__ out_x, double *__restrict__ out_y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= bodies)
    return;
  double m = anomaly[i], e = eccentricity[i], big = e < 0.8 ? m : 3.141592653589793, s, c;
  for (int trip = 0; trip < 12; trip++) {
    sincos(big, &s, &c);
    double step = (big - e * s - m) / (1.0 - e * c);
    big -= step;
    if (fabs(step) < 1e-12)
      break;
  }
  sincos(big, &s, &c);
  out_x[i] = c - e;
  out_y[i] = sqrt(1.0 - e * e) * s;
}
