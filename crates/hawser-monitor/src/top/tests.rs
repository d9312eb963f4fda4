mod keys;
mod pictures;
mod scene;
