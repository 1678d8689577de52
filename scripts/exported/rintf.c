/* The function of math.h that the run-time library of the core's compiler does not have. */
float rintf(float x);

/* Round to the nearest integer, and to the even of two. */
float rintf(float x)
{
    const float whole = 8388608.0f; /* floats from here on are integers */
    float size = __builtin_fabsf(x);

    return size < whole ? __builtin_copysignf(size + whole - whole, x) : x;
}
