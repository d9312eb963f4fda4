/* What the kernel's compiler and that of a test's machine have to be told in different words. */
#ifndef HAWSER_COMPILERS_H
#define HAWSER_COMPILERS_H

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

#ifdef __clang__
#define ROLLED _Pragma("nounroll")
#else
#define ROLLED
#endif

#endif
