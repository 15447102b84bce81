"""The ground of all rooms: errors, units, files, caches, processes, compiled functions, the CUDA driver.

    errors        WarplensError and its kinds: one clear line that says what to do (exit code 2)
    units         the unit that a field name carries; numbers and names as people read them
    files         reading with bounds, writing whole or not at all, trees to structures with errors that name the key
    file_kinds    the kind of a file, so that an error can say what was given instead
    cache         results by content on disk; a key holds a digest of the code that made them
    processes     programs that are started with limits of time and memory, without a shell
    progress      one line on stderr while something takes long
    native        Numba's functions as machine code, kept on disk and loaded without Numba
    driver        the CUDA driver through ctypes, for those who measure
    version       the version, in one place

Nothing here knows a GPU, a kernel or a model, and nothing here imports another room. Every error that a user can cause
is a WarplensError; every file that a user names is read by `files`; every program is started by `processes`. The keys
of the cache digest whole rooms (`cache.code_digest`): after an edit of program/ no kept program is used.
`native` goes when the hot loops are C++.
"""
