// What tests include is precompiled beside this file.
